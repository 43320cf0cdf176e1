#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace deform::client {

// Columns of text, two spaces apart, as wide as their widest cell.
class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit TextTable(std::vector<Column> columns);

  // REQUIRES: one cell for each column.
  void AddRow(std::vector<std::string> cells);

  // The titles and all rows, each after `indent`, no spaces at line ends.
  void Print(std::ostream& out, std::string_view indent) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns that UTF-8 text takes on a terminal, one for each character.
size_t DisplayWidth(std::string_view text);

// 1234567 as "1 234 567".
std::string GroupedNumber(int64_t value);

}  // namespace deform::client
