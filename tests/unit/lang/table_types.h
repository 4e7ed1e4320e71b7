// A TypeSource made of tables, for tests.
#pragma once

#include <map>

#include "lang/type_source.h"

namespace uscope::lang {

class TableTypes final : public TypeSource {
 public:
  std::map<std::string, StructLayout, std::less<>> structs;
  std::map<std::string, Type, std::less<>> types;
  std::map<std::string, Constant, std::less<>> constants;
  std::map<std::string, std::vector<NamedValue>, std::less<>> args;     // by function
  std::map<std::string, std::vector<NamedValue>, std::less<>> locals_;  // by attach point
  std::map<std::string, Type, std::less<>> results;
  std::map<std::string, Type, std::less<>> globals;

  std::optional<StructLayout> find_struct(std::string_view name) const override {
    return find(structs, name);
  }
  std::optional<Type> find_type(std::string_view name) const override { return find(types, name); }
  std::vector<Constant> find_constants(std::string_view name) const override {
    auto found = find(constants, name);
    return found ? std::vector<Constant>{*found} : std::vector<Constant>();
  }
  std::vector<Enumerator> enumerators(std::string_view) const override { return {}; }
  std::optional<std::vector<NamedValue>> arguments(const AttachSpec& probe) const override {
    return find(args, probe.function);
  }
  std::optional<std::vector<NamedValue>> locals(const AttachSpec& probe) const override {
    return find(locals_, probe.text);
  }
  std::optional<Type> return_type(const AttachSpec& probe) const override {
    return find(results, probe.function);
  }
  std::optional<Type> global(const AttachSpec&, std::string_view name) const override {
    return find(globals, name);
  }

 private:
  template <typename Map>
  static std::optional<typename Map::mapped_type> find(const Map& map, std::string_view name) {
    auto found = map.find(name);
    if (found == map.end()) return std::nullopt;
    return found->second;
  }
};

}  // namespace uscope::lang
