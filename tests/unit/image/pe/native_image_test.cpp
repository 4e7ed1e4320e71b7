#include "image/pe/native_image.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/image/pe/pe_builder.h"

namespace uscope::image {
namespace {

using testing::Blob;
using testing::MetadataBuilder;
using testing::ReadyToRunSpec;

constexpr uint32_t kCode = ReadyToRunSpec::kCodeAddress;

// An entry point: the runtime function's index, without fix-ups.
Blob entry(uint32_t function) { return testing::native_unsigned(function << 1); }
// With fix-ups of its own, which follow and which readers skip.
Blob entry_with_fixups(uint32_t function) { return testing::native_unsigned(function << 2 | 1).u8(0x77); }

// Three types, four methods, five runtime functions: Echo has a funclet.
ReadyToRunSpec echo_image() {
  MetadataBuilder builder("app");
  builder.type_def("Demo", "Echo");
  builder.method(".ctor", Blob{0x20, 0, 0x01});
  builder.method("Say", Blob{0x20, 1, 0x0e, 0x0e});
  uint16_t program = builder.type_def("Demo", "Program");
  builder.method("Main", Blob{0x00, 1, 0x01, 0x1d, 0x0e});
  builder.type_def("", "Nested", program);
  builder.method("NotCompiled", Blob{0x00, 0, 0x01});
  ReadyToRunSpec spec;
  spec.metadata = builder.build();
  spec.functions = {{kCode + 0x10, kCode + 0x20},
                    {kCode + 0x20, kCode + 0x58},
                    {kCode + 0x58, kCode + 0x70},
                    {kCode + 0x80, kCode + 0xc1}};
  spec.method_entries = {{0, entry(0)}, {1, entry_with_fixups(1)}, {2, entry(3)}};
  return spec;
}

NativeImage read(const ReadyToRunSpec& spec, FileOffset start = {}) {
  Blob file = testing::build_ready_to_run(spec);
  auto image = read_native_image(file.bytes, "/nowhere/app.dll", start);
  EXPECT_TRUE(image.has_value()) << image.error().message();
  return image ? std::move(*image) : NativeImage();
}

TEST(NativeImage, NamesOffsetsAndSizesOfCompiledMethods) {
  NativeImage image = read(echo_image());
  EXPECT_EQ(image.kind, NativeImageKind::kReadyToRun);
  EXPECT_EQ(image.assembly, "app");
  EXPECT_EQ(to_string(image.mvid), "13121110-1514-1716-1819-1a1b1c1d1e1f");
  EXPECT_EQ(image.machine, PeMachine::kX64);
  EXPECT_EQ(image.system, PeSystem::kLinux);
  EXPECT_TRUE(image.notes.empty()) << image.notes[0];
  EXPECT_EQ(image.explanation(), "");
  ASSERT_EQ(image.methods.size(), 3u);
  EXPECT_EQ(image.methods[0].name, "instance void [app] Demo.Echo::.ctor()");
  EXPECT_EQ(image.methods[1].name, "instance string [app] Demo.Echo::Say(string)");
  EXPECT_EQ(image.methods[1].qualified_name(), "Demo.Echo::Say");
  EXPECT_EQ(image.methods[2].name, "void [app] Demo.Program::Main(string[])");
  EXPECT_EQ(image.methods[1].rva.value, kCode + 0x20);
  EXPECT_EQ(image.methods[1].body_size, 0x38u);
  EXPECT_EQ(image.methods[1].size, 0x50u);  // with its funclet
  EXPECT_EQ(image.methods[2].size, 0x41u);
}

TEST(NativeImage, TheFileOffsetIsTheSectionsNotTheRva) {
  Blob file = testing::build_ready_to_run(echo_image());
  auto pe = PeFile::parse(file.bytes);
  ASSERT_TRUE(pe);
  const PeSection& code = pe->sections()[1];
  ASSERT_NE(code.file_offset.value, code.address.value);
  NativeImage image = read(echo_image());
  EXPECT_EQ(image.methods[1].offset.value, code.file_offset.value + 0x20);
  NativeImage bundled = read(echo_image(), FileOffset{0x123000});
  EXPECT_EQ(bundled.methods[1].offset.value, 0x123000 + code.file_offset.value + 0x20);
  EXPECT_EQ(bundled.find(bundled.methods[1].offset), &bundled.methods[1]);
}

TEST(NativeImage, FindsByAddressAndByName) {
  NativeImage image = read(echo_image());
  EXPECT_EQ(image.find(ImageAddr{kCode + 0x20}), &image.methods[1]);
  EXPECT_EQ(image.find(ImageAddr{kCode + 0x6f}), &image.methods[1]);
  EXPECT_EQ(image.find(ImageAddr{kCode + 0x70}), nullptr);  // padding
  EXPECT_EQ(image.find(ImageAddr{kCode}), nullptr);
  EXPECT_EQ(image.match("Demo.Echo::Say").size(), 1u);
  EXPECT_EQ(image.match("*::S?y").size(), 1u);
  EXPECT_EQ(image.match("instance string [app] Demo.Echo::Say(string)").size(), 1u);
  EXPECT_EQ(image.match("Demo.Echo").size(), 0u);
}

TEST(NativeImage, GenericInstancesCarryTheirArguments) {
  ReadyToRunSpec spec = echo_image();
  MetadataBuilder builder("app");
  uint16_t pair = builder.type_def("Demo", "Pair`2");
  builder.method("First", Blob{0x20, 0, 0x13, 0});
  builder.type_def("Demo", "Ext");
  uint16_t len = builder.method("Len", Blob{0x10, 1, 1, 0x08, 0x1d, 0x1e, 0});
  spec.metadata = builder.build();
  spec.method_entries.clear();
  // Pair<__Canon,int32>.First, with the owner spelled out; then Len<Pair<long,string>>.
  Blob first{0x40, 0x15, 0x12, MetadataBuilder::coded_def(pair), 2, 0x3e, 0x08, 1};
  Blob second{0x04, len, 1, 0x15, 0x12, MetadataBuilder::coded_def(pair), 2, 0x0a, 0x0e};
  spec.instance_entries = {first.add(entry(0)), second.add(entry_with_fixups(3))};
  NativeImage image = read(spec);
  ASSERT_EQ(image.methods.size(), 2u);
  EXPECT_TRUE(image.notes.empty()) << image.notes[0];
  EXPECT_EQ(image.methods[0].full_name(),
            "instance !0 [app] Demo.Pair`2[System.__Canon,System.Int32]::First()");
  EXPECT_EQ(image.match("Demo.Pair`2[System.__Canon,*]::First").size(), 1u);
  EXPECT_EQ(image.methods[1].name, "int32 [app] Demo.Ext::Len(!!0[])");
  EXPECT_EQ(image.methods[1].type_arguments, "[Demo.Pair`2[System.Int64,System.String]]");
  EXPECT_EQ(image.methods[1].full_name(),
            "int32 [app] Demo.Ext::Len[Demo.Pair`2[System.Int64,System.String]](!!0[])");
}

TEST(NativeImage, MethodsOfAnotherAssemblyByReferenceAreNotCalledOurs) {
  ReadyToRunSpec spec = echo_image();
  MetadataBuilder builder("app");
  uint16_t runtime = builder.assembly_ref("System.Runtime");
  uint16_t list = builder.type_ref(MetadataBuilder::scope_of_assembly(runtime), "System", "List`1");
  uint16_t instance = builder.type_spec(Blob{0x15, 0x12, MetadataBuilder::coded_ref(list), 1, 0x08});
  uint16_t add = builder.member_ref(uint16_t(instance << 3 | 4), "Add", Blob{0x20, 1, 0x01, 0x13, 0});
  spec.metadata = builder.build();
  spec.method_entries.clear();
  Blob by_owner{0x50, 0x15, 0x12, MetadataBuilder::coded_ref(list), 1, 0x08, add};
  spec.instance_entries = {by_owner.add(entry(0))};
  NativeImage image = read(spec);
  ASSERT_EQ(image.methods.size(), 1u);
  EXPECT_EQ(image.methods[0].name, "instance void [System.Runtime] System.List`1[System.Int32]::Add(!0)");
}

TEST(NativeImage, TypesOfAnotherModuleComeFromThatModule) {
  MetadataBuilder library("lib");
  uint16_t box = library.type_def("Lib", "Box`1");
  library.method("Get", Blob{0x20, 0, 0x13, 0});
  ReadyToRunSpec library_spec;
  library_spec.metadata = library.build();
  library_spec.with_header = false;
  Blob library_file = testing::build_ready_to_run(library_spec);

  ReadyToRunSpec spec = echo_image();
  MetadataBuilder builder("app");
  builder.assembly_ref("lib");
  spec.metadata = builder.build();
  spec.method_entries.clear();
  spec.instance_entries = {
      Blob{0x40, 0x3f, 1, 0x15, 0x12, MetadataBuilder::coded_def(box), 1, 0x08, 1}.add(entry(0))};
  Blob file = testing::build_ready_to_run(spec);
  AssemblySource source = [&](std::string_view name) -> std::optional<Bytes> {
    if (name == "lib") return Bytes(library_file.bytes);
    return std::nullopt;
  };
  auto image = read_native_image(file.bytes, "app.dll", {}, source);
  ASSERT_TRUE(image);
  ASSERT_EQ(image->methods.size(), 1u);
  EXPECT_EQ(image->methods[0].name, "instance !0 [lib] Lib.Box`1[System.Int32]::Get()");

  // Without it the method is still listed, at its place, and the notes say what is missing.
  auto alone = read_native_image(file.bytes, "/nowhere/app.dll");
  ASSERT_TRUE(alone);
  ASSERT_EQ(alone->methods.size(), 1u);
  EXPECT_EQ(alone->methods[0].rva, image->methods[0].rva);
  EXPECT_NE(alone->methods[0].name.find("0x0600"), std::string::npos) << alone->methods[0].name;
  ASSERT_FALSE(alone->notes.empty());
  EXPECT_NE(alone->notes.back().find("lib was not found"), std::string::npos) << alone->notes.back();
}

TEST(NativeImage, HotAndColdPartsAreOneMethod) {
  ReadyToRunSpec spec = echo_image();
  spec.functions.push_back({kCode + 0x200, kCode + 0x230});  // 4: cold part of Say
  spec.functions.push_back({kCode + 0x230, kCode + 0x238});  // 5: its cold funclet
  spec.functions.push_back({kCode + 0x240, kCode + 0x250});  // 6: cold part of Main
  spec.extra_sections[120] = Blob().u32(4).u32(1).u32(6).u32(3);
  NativeImage image = read(spec);
  ASSERT_EQ(image.methods.size(), 3u);
  EXPECT_FALSE(image.methods[0].cold);
  ASSERT_TRUE(image.methods[1].cold);
  EXPECT_EQ(image.methods[1].cold->rva.value, kCode + 0x200);
  EXPECT_EQ(image.methods[1].cold->size, 0x38u);
  EXPECT_EQ(image.methods[1].size, 0x50u);
  ASSERT_TRUE(image.methods[2].cold);
  EXPECT_EQ(image.methods[2].cold->size, 0x10u);
  EXPECT_EQ(image.methods[2].size, 0x41u);
  EXPECT_EQ(image.find(ImageAddr{kCode + 0x231}), &image.methods[1]);
}

TEST(NativeImage, FilesWithoutNativeCodeSayWhatTheyAre) {
  ReadyToRunSpec spec = echo_image();
  spec.with_header = false;
  NativeImage image = read(spec);
  EXPECT_EQ(image.kind, NativeImageKind::kIlOnly);
  EXPECT_TRUE(image.methods.empty());
  EXPECT_EQ(
      image.explanation(),
      "IL only: no native code in the file; publish with PublishReadyToRun or probe the JIT's code by name");

  spec = echo_image();
  spec.signature = 0x4e45474e;
  image = read(spec);
  EXPECT_EQ(image.kind, NativeImageKind::kOtherNative);
  EXPECT_NE(image.explanation().find("crossgen map"), std::string::npos);

  spec = echo_image();
  spec.flags |= 0x20;
  spec.extra_sections[116] = Blob().text("framework.r2r.dll").u8(0);
  image = read(spec);
  EXPECT_EQ(image.kind, NativeImageKind::kComponent);
  EXPECT_EQ(image.explanation(), "the native code of app is in the composite image framework.r2r.dll");

  Blob plain = testing::build_pe({});
  auto not_managed = read_native_image(plain.bytes, "x.dll");
  ASSERT_TRUE(not_managed);
  EXPECT_EQ(not_managed->kind, NativeImageKind::kNotManaged);

  EXPECT_FALSE(read_native_image({}, "empty").has_value());
  Blob text;
  text.text("#!/bin/sh\n");
  auto script = read_native_images(text.bytes, "run.sh");
  ASSERT_FALSE(script);
  EXPECT_EQ(script.error().message(), "run.sh is neither a .NET image nor a single-file bundle");
}

TEST(NativeImage, CodeForAnotherSystemIsMarked) {
  ReadyToRunSpec spec = echo_image();
  spec.machine = 0x8664;
  NativeImage image = read(spec);
  ASSERT_EQ(image.notes.size(), 1u);
  EXPECT_EQ(image.notes[0], "the native code is for Windows; a Linux runtime ignores it and compiles the IL");
}

TEST(NativeImage, CompositeImagesListEveryComponent) {
  MetadataBuilder manifest("framework.r2r");
  manifest.assembly_ref("lib");
  manifest.assembly_ref("app");
  MetadataBuilder app("app");
  app.type_def("Demo", "Program");
  app.method("Main", Blob{0x00, 0, 0x01});
  Blob app_metadata = app.build();

  // Components are laid out by hand behind the other sections' data: their core headers and embedded COR
  // headers hold RVAs, so the data is placed in one extra section whose address is found by building twice.
  ReadyToRunSpec spec = echo_image();
  spec.method_entries.clear();
  spec.extra_sections[112] = manifest.build();
  Blob entries = testing::native_array({{0, entry(3)}});
  auto payload = [&](uint32_t at) {
    Blob data;
    data.add(app_metadata).align(4);
    uint32_t cor = uint32_t(data.size());
    data.u32(72).u32(0).u32(at).u32(app_metadata.size()).pad_to(cor + 72);
    uint32_t entries_at = uint32_t(data.size());
    data.add(entries).align(4);
    uint32_t core = uint32_t(data.size());
    data.u32(0).u32(1).u32(103).u32(at + entries_at).u32(entries.size());
    uint32_t empty = uint32_t(data.size());
    data.u32(0).u32(0);
    Blob table;
    table.u32(0).u32(0).u32(at + empty).u32(8);          // lib: nothing compiled
    table.u32(at + cor).u32(72).u32(at + core).u32(20);  // app
    return std::pair(data, table);
  };
  spec.extra_sections[115] = payload(0).second;
  spec.extra_sections[900] = payload(0).first;
  Blob probe = testing::build_ready_to_run(spec);
  auto needle = std::search(probe.bytes.begin(), probe.bytes.end(), app_metadata.bytes.begin(),
                            app_metadata.bytes.end());
  ASSERT_NE(needle, probe.bytes.end());
  uint32_t at = uint32_t(needle - probe.bytes.begin()) - 0x200 + ReadyToRunSpec::kTextAddress;
  spec.extra_sections[115] = payload(at).second;
  spec.extra_sections[900] = payload(at).first;

  NativeImage image = read(spec);
  EXPECT_EQ(image.kind, NativeImageKind::kComposite);
  ASSERT_EQ(image.methods.size(), 1u);
  EXPECT_EQ(image.methods[0].name, "void [app] Demo.Program::Main()");
  EXPECT_EQ(image.methods[0].rva.value, kCode + 0x80);
  EXPECT_TRUE(image.notes.empty()) << image.notes[0];
}

TEST(NativeImage, EntriesThatLieAreLeftOutAndCounted) {
  ReadyToRunSpec spec = echo_image();
  spec.method_entries[2] = entry(99);  // no such runtime function
  spec.functions[0] = {ReadyToRunSpec::kTextAddress, ReadyToRunSpec::kTextAddress + 4};  // not code
  NativeImage image = read(spec);
  ASSERT_EQ(image.methods.size(), 1u);
  EXPECT_EQ(image.methods[0].qualified_name(), "Demo.Echo::Say");
  ASSERT_FALSE(image.notes.empty());
  EXPECT_EQ(image.notes[0], "2 methods point outside the image's code and are left out");
}

TEST(NativeImage, EveryPrefixOfAnImageIsAnswered) {
  Blob file = testing::build_ready_to_run(echo_image());
  for (size_t size = 0; size < file.size(); size += size < 0x400 ? 1 : 7) {
    auto image = read_native_image(Bytes(file.bytes).first(size), "/nowhere/app.dll");
    if (!image) {
      EXPECT_FALSE(image.error().message().empty());
    }
  }
}

}  // namespace
}  // namespace uscope::image
