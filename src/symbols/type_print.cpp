#include "symbols/type_print.h"

#include <fmt/format.h>

#include <algorithm>

namespace uscope::symbols {
namespace {

using image::Language;
using Kind = LayoutItem::Kind;

std::string bits_as_size(uint64_t bits) {
  return bits % 8 ? fmt::format("{}b", bits) : fmt::format("{}", bits / 8);
}

std::string plural(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string bits_in_words(uint64_t bits) { return bits % 8 ? plural(bits, "bit") : plural(bits / 8, "byte"); }

std::string offset_text(const LayoutItem& item) {
  if (!item.bit_offset) return "?";
  const bool by_bit = item.kind == Kind::Bitfield || item.bit_size % 8 || *item.bit_offset % 8;
  return by_bit ? fmt::format("{}:{}", *item.bit_offset / 8, *item.bit_offset % 8)
                : fmt::format("{}", *item.bit_offset / 8);
}

std::string size_text(const LayoutItem& item) {
  return item.kind == Kind::Bitfield ? fmt::format("{}b", item.bit_size) : bits_as_size(item.bit_size);
}

bool has_place(const LayoutItem& item) {
  switch (item.kind) {
    case Kind::Static:
    case Kind::Enumerator:
    case Kind::Variant:
    case Kind::Cut:
      return false;
    default:
      return true;
  }
}

class Printer {
 public:
  Printer(const TypeLayout& layout, bool with_offsets) : layout_(layout), with_offsets_(with_offsets) {
    measure(layout.items);
  }

  std::string print() {
    open();
    for (const auto& item : layout_.items) print_item(item, 1);
    close();
    return std::move(out_);
  }

 private:
  bool is_go() const { return layout_.language == Language::Go; }
  bool is_rust() const { return layout_.language == Language::Rust; }
  const char* terminator() const { return is_go() ? "" : is_rust() ? "," : ";"; }

  void measure(const std::vector<LayoutItem>& items) {
    for (const auto& item : items) {
      if (has_place(item)) {
        offset_width_ = std::max(offset_width_, offset_text(item).size());
        size_width_ = std::max(size_width_, size_text(item).size());
      }
      measure(item.items);
    }
  }

  void open() {
    const std::string comment = "  // " + describe_layout(layout_) + "\n";
    const bool has_body = !layout_.keyword.empty() && !layout_.is_incomplete;
    std::string head;
    if (!layout_.alias_of.empty()) {
      const bool is_anonymous = layout_.alias_of.find("{...}") != std::string::npos;
      if (!is_anonymous || !has_body || is_go() || is_rust()) {
        out_ += alias_line() + comment;
        if (!has_body) return;
        head = layout_.alias_of;
        if (is_anonymous) head = layout_.keyword;
      } else {
        head = "typedef " + layout_.keyword;
        closing_name_ = " " + layout_.name;
      }
    } else if (layout_.keyword.empty() || layout_.is_incomplete) {
      out_ += (layout_.keyword.empty() ? "" : layout_.keyword + " ") + layout_.name + terminator() + comment;
      return;
    } else {
      head = is_go() ? fmt::format("type {} {}", layout_.name, layout_.keyword)
                     : layout_.keyword + (layout_.name.empty() ? "" : " ") + layout_.name;
    }
    // C's spelling has its tag already; the others' needs the keyword.
    if (!layout_.alias_of.empty() && closing_name_.empty() && !head.starts_with(layout_.keyword)) {
      head = is_go() ? fmt::format("type {} {}", head, layout_.keyword) : layout_.keyword + " " + head;
    }
    if (!layout_.underlying.empty() && layout_.language == Language::Cpp) head += " : " + layout_.underlying;
    if (!layout_.bases.empty()) head += " : " + layout_.bases;
    out_ += head + " {" + (out_.empty() ? comment : "\n");
    is_open_ = true;
  }

  std::string alias_line() const {
    if (is_go()) return fmt::format("type {} {}", layout_.name, layout_.alias_of);
    if (is_rust()) return fmt::format("type {} = {};", layout_.name, layout_.alias_of);
    if (layout_.language == Language::Cpp)
      return fmt::format("using {} = {};", layout_.name, layout_.alias_of);
    return fmt::format("typedef {};", layout_.alias_declaration);
  }

  void close() {
    if (is_open_) out_ += "}" + closing_name_ + (is_go() || is_rust() ? "\n" : ";\n");
  }

  // The comment column, or as many blanks.
  void margin(const LayoutItem* item) {
    if (!with_offsets_ || offset_width_ == 0) return;
    if (item && has_place(*item)) {
      out_ += fmt::format("  /* {:>{}} | {:>{}} */", offset_text(*item), offset_width_, size_text(*item),
                          size_width_);
    } else {
      out_.append(offset_width_ + size_width_ + 11, ' ');
    }
  }

  void line(const LayoutItem* item, int level, std::string_view text) {
    margin(item);
    out_.append(static_cast<size_t>(level) * 2, ' ');
    out_ += text;
    out_ += '\n';
  }

  void print_item(const LayoutItem& item, int level) {
    const bool is_gap = item.kind == Kind::Hole || item.kind == Kind::Padding;
    if (is_gap && !with_offsets_) return;
    switch (item.kind) {
      case Kind::Hole:
        return line(&item, level, "// hole of " + bits_in_words(item.bit_size));
      case Kind::Padding:
        return line(&item, level, "// padding of " + bits_in_words(item.bit_size));
      case Kind::VirtualArea:
        return line(&item, level, "// virtual bases and padding, placed by each object's vtable");
      case Kind::VtablePointer:
        return line(&item, level, "// vtable pointer " + item.text);
      case Kind::VirtualBase:
        return line(&item, level, "// virtual base " + item.text);
      case Kind::Discriminant:
        return line(&item, level, "// discriminant: " + item.text);
      case Kind::Cut:
        return line(nullptr, level, "// " + item.text);
      case Kind::Static:
        return line(nullptr, level, "static " + item.text + terminator());
      case Kind::Enumerator:
        return print_enumerator(item, level);
      case Kind::Base:
        if (!item.is_expanded) return line(&item, level, "// base " + item.text);
        return print_expanded(item, level);
      default:
        break;
    }
    if (item.is_expanded) return print_expanded(item, level);
    const bool is_variant = item.kind == Kind::Variant;
    const std::string note = item.note.empty() ? "" : "  // " + item.note;
    line(&item, level, item.text + (is_variant ? "," : terminator()) + note);
  }

  void print_expanded(const LayoutItem& item, int level) {
    const bool is_base = item.kind == Kind::Base;
    const std::string note = item.note.empty() ? "" : "  // " + item.note;
    line(&item, level, (is_base ? "// base " : "") + item.text + (item.is_tuple ? "(" : " {") + note);
    for (const auto& inner : item.items) print_item(inner, level + 1);
    line(nullptr, level,
         is_base ? "// }"
                 : (item.is_tuple ? ")" : "}") + item.text_after +
                       (item.kind == Kind::Variant ? "," : terminator()));
  }

  void print_enumerator(const LayoutItem& item, int level) {
    const bool is_unsigned =
        layout_.underlying.starts_with("unsigned") || layout_.underlying.starts_with("u");
    const int64_t value = item.value.value_or(0);
    const uint64_t mask = layout_.size < 8 ? (uint64_t(1) << layout_.size * 8) - 1 : ~uint64_t(0);
    const std::string number =
        is_unsigned ? fmt::format("{}", static_cast<uint64_t>(value) & mask) : fmt::format("{}", value);
    out_ += fmt::format("{:{}}{} = {},\n", "", level * 2, item.text, number);
  }

  const TypeLayout& layout_;
  bool with_offsets_;
  bool is_open_ = false;
  std::string closing_name_;
  size_t offset_width_ = 0;
  size_t size_width_ = 0;
  std::string out_;
};

}  // namespace

std::string describe_layout(const TypeLayout& layout) {
  std::string out;
  const auto add = [&](std::string_view part) { out += (out.empty() ? "" : ", ") + std::string(part); };
  if (layout.is_incomplete) {
    add("declared only, defined nowhere in this file's debug info");
  } else {
    add(fmt::format("size {}", layout.size));
    if (layout.alignment) add(fmt::format("align {}", layout.alignment));
  }
  if (!layout.underlying.empty() && layout.language != Language::Cpp) add(layout.underlying);
  if (layout.is_packed) add("packed");
  if (layout.holes)
    add(fmt::format("{} ({})", plural(layout.holes, "hole"), bits_in_words(layout.hole_bits)));
  if (layout.padding_bits) add(bits_in_words(layout.padding_bits) + " of padding");
  if (!layout.decl_file.empty()) {
    add(layout.decl_line ? fmt::format("{}:{}", layout.decl_file, layout.decl_line) : layout.decl_file);
  }
  return out;
}

std::string print_type(const TypeLayout& layout, bool with_offsets) {
  return Printer(layout, with_offsets).print();
}

}  // namespace uscope::symbols
