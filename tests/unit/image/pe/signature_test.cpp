#include "image/pe/signature.h"

#include <gtest/gtest.h>

#include "unit/image/pe/pe_builder.h"

namespace uscope::image {
namespace {

using testing::Blob;
using testing::MetadataBuilder;

class SignatureTest : public ::testing::Test {
 protected:
  SignatureTest() : builder_("app") {
    runtime_ = builder_.assembly_ref("System.Runtime");
    list_ = builder_.type_ref(MetadataBuilder::scope_of_assembly(runtime_), "System.Collections.Generic",
                              "List`1");
    outer_ref_ = builder_.type_ref(MetadataBuilder::scope_of_assembly(runtime_), "System", "Environment");
    inner_ref_ = builder_.type_ref(MetadataBuilder::scope_of_type(outer_ref_), "", "SpecialFolder");
    in_ = builder_.type_ref(MetadataBuilder::scope_of_assembly(runtime_), "System", "InAttribute");
    point_ = builder_.type_def("Demo", "Point");
    nested_ = builder_.type_def("", "Inner`1", point_);
  }
  std::string spell(const Blob& signature, std::string_view name = "[app] Demo.T::M") {
    bytes_ = builder_.build();
    auto metadata = Metadata::parse(bytes_.bytes);
    EXPECT_TRUE(metadata.has_value());
    return spell_method(*metadata, signature.bytes, name).value_or("<unreadable>");
  }

  MetadataBuilder builder_;
  Blob bytes_;
  uint16_t runtime_, list_, outer_ref_, inner_ref_, in_, point_, nested_;
};

TEST_F(SignatureTest, ThePlainCasesOfTheSeeds) {
  EXPECT_EQ(spell(Blob{0x20, 1, 0x0e, 0x0e}), "instance string [app] Demo.T::M(string)");
  EXPECT_EQ(spell(Blob{0x00, 1, 0x01, 0x1d, 0x0e}), "void [app] Demo.T::M(string[])");
  EXPECT_EQ(spell(Blob{0x20, 4, 0x08, 0x08, 0x08, 0x08, 0x08}),
            "instance int32 [app] Demo.T::M(int32,int32,int32,int32)");
}

TEST_F(SignatureTest, EveryPrimitive) {
  EXPECT_EQ(spell(Blob{0,    17,   0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                       0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x16, 0x18, 0x19, 0x1c}),
            "void [app] "
            "Demo.T::M(bool,char,int8,uint8,int16,uint16,int32,uint32,int64,uint64,float32,float64,string,"
            "typedref,native int,native uint,object)");
}

TEST_F(SignatureTest, TypesOfOtherAssembliesAreMarkedNestedOnesHaveASlash) {
  EXPECT_EQ(
      spell(Blob{0, 2, 0x11, MetadataBuilder::coded_def(point_), 0x11, MetadataBuilder::coded_ref(inner_ref_),
                 0x12, MetadataBuilder::coded_def(nested_)}),
      "valuetype Demo.Point [app] Demo.T::M(valuetype [System.Runtime]System.Environment/SpecialFolder,class "
      "Demo.Point/Inner`1)");
}

TEST_F(SignatureTest, GenericInstancesAndVariables) {
  // List<List<!0>> M(!!1)
  EXPECT_EQ(spell(Blob{0x30, 2, 1, 0x15, 0x12, MetadataBuilder::coded_ref(list_), 1, 0x15, 0x12,
                       MetadataBuilder::coded_ref(list_), 1, 0x13, 0, 0x1e, 1}),
            "instance class [System.Runtime]System.Collections.Generic.List`1<class "
            "[System.Runtime]System.Collections.Generic.List`1<!0>> [app] Demo.T::M(!!1)");
}

TEST_F(SignatureTest, PointersReferencesArraysAndModifiersReadInsideOut) {
  EXPECT_EQ(
      spell(Blob{0, 4, 0x01, 0x0f, 0x0f, 0x05, 0x10, 0x1d, 0x08, 0x1f, MetadataBuilder::coded_ref(in_), 0x10,
                 0x13, 0, 0x1d, 0x1d, 0x0e}),
      "void [app] Demo.T::M(uint8**,int32[]&,!0& modreq([System.Runtime]System.InAttribute),string[][])");
}

TEST_F(SignatureTest, ArraysOfSeveralDimensions) {
  EXPECT_EQ(spell(Blob{0, 1, 0x01, 0x14, 0x08, 2, 0, 2, 0, 0}), "void [app] Demo.T::M(int32[0...,0...])");
  EXPECT_EQ(spell(Blob{0, 1, 0x01, 0x14, 0x08, 1, 0, 0}), "void [app] Demo.T::M(int32[...])");
  EXPECT_EQ(spell(Blob{0, 1, 0x01, 0x14, 0x08, 1, 1, 5, 1, 0}), "void [app] Demo.T::M(int32[5])");
  EXPECT_EQ(spell(Blob{0, 1, 0x01, 0x14, 0x08, 1, 1, 5, 1, 4}), "void [app] Demo.T::M(int32[2...6])");
}

TEST_F(SignatureTest, FunctionPointersAndVariableArguments) {
  EXPECT_EQ(spell(Blob{0, 1, 0x01, 0x1b, 0x09, 1, 0x08, 0x08}),
            "void [app] Demo.T::M(method unmanaged int32 *(int32))");
  EXPECT_EQ(spell(Blob{5, 2, 0x01, 0x08, 0x41, 0x0e}), "vararg void [app] Demo.T::M(int32,...,string)");
}

TEST_F(SignatureTest, MalformedSignaturesAreNoText) {
  EXPECT_EQ(spell(Blob{}), "<unreadable>");
  EXPECT_EQ(spell(Blob{0x20}), "<unreadable>");
  EXPECT_EQ(spell(Blob{0x20, 3, 0x01, 0x08}), "<unreadable>");           // fewer parameters than claimed
  EXPECT_EQ(spell(Blob{0x20, 1, 0x01, 0x12, 0x7d}), "<unreadable>");     // a type row that does not exist
  EXPECT_EQ(spell(Blob{0x20, 1, 0x01, 0x3f, 0, 0x08}), "<unreadable>");  // module override outside ReadyToRun
  EXPECT_EQ(spell(Blob{0x06, 0x08}), "<unreadable>");                    // a field's
  EXPECT_EQ(spell(Blob{0, 1, 0x01, 0x14, 0x08, 33, 0, 0}), "<unreadable>");
}

TEST_F(SignatureTest, DeepAndCyclicSignaturesEnd) {
  Blob deep{0, 1, 0x01};
  for (int i = 0; i < 100'000; ++i) deep.u8(0x0f);
  deep.u8(0x08);
  EXPECT_EQ(spell(deep), "<unreadable>");
  // Two type specifications that contain each other.
  builder_.type_spec(Blob{0x12, 2 << 2 | 2});
  builder_.type_spec(Blob{0x12, 1 << 2 | 2});
  EXPECT_EQ(spell(Blob{0, 1, 0x01, 0x12, 1 << 2 | 2}), "<unreadable>");
}

TEST_F(SignatureTest, ATreeOfTypeSpecificationsCannotExplode) {
  // Each is a pair of the next: 2^30 leaves if nobody counted.
  for (int i = 1; i <= 30; ++i) {
    int next = (i + 1) << 2 | 2;
    Blob pair{0x15, 0x12, MetadataBuilder::coded_ref(list_), 2};
    for (int side = 0; side < 2; ++side) pair.u8(0x12).u8(0x80 | next >> 8).u8(next & 0xff);
    builder_.type_spec(pair);
  }
  builder_.type_spec(Blob{0x08});
  EXPECT_EQ(spell(Blob{0, 1, 0x01, 0x12, 1 << 2 | 2}), "<unreadable>");
}

TEST_F(SignatureTest, CyclicEnclosingTypesEnd) {
  builder_.nest(point_, nested_);
  EXPECT_EQ(spell(Blob{0, 0, 0x11, MetadataBuilder::coded_def(point_)}), "<unreadable>");
}

TEST_F(SignatureTest, ReflectionStyleEscapesItsOwnSyntax) {
  uint16_t odd = builder_.type_def("Demo", "<A,B[]>d__1");
  bytes_ = builder_.build();
  auto metadata = Metadata::parse(bytes_.bytes);
  ASSERT_TRUE(metadata);
  EXPECT_EQ(spell_type_def(*metadata, odd), "Demo.<A\\,B\\[\\]>d__1");
  EXPECT_EQ(spell_type_def(*metadata, nested_), "Demo.Point+Inner`1");
}

}  // namespace
}  // namespace uscope::image
