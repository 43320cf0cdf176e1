#include "cli/text_table.h"

#include <algorithm>
#include <utility>

namespace deform::client {

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  rows_.push_back(std::move(titles));
}

void TextTable::AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

void TextTable::Print(std::ostream& out, std::string_view indent) const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string space(widths[i] - DisplayWidth(row[i]), ' ');
      if (i > 0) line += "  ";
      line += columns_[i].align == Align::kRight ? space + row[i] : row[i] + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

size_t DisplayWidth(std::string_view text) {
  // Every byte but the continuation bytes of UTF-8.
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string GroupedNumber(int64_t value) {
  std::string digits = std::to_string(value);
  const int first_digit = value < 0 ? 1 : 0;
  for (int i = static_cast<int>(digits.size()) - 3; i > first_digit; i -= 3)
    digits.insert(i, 1, ' ');
  return digits;
}

}  // namespace deform::client
