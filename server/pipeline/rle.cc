#include "pipeline/rle.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace deform::pipeline {
namespace {

constexpr int kStripColumns = 32;

// Calls visit(column) for each column from left to right, a contiguous copy of `height` values.
// Columns are gathered in strips, so that each cache line of the map is read once.
template <typename T, typename Visit>
void ForEachColumn(const T* map, int height, int width, Visit visit) {
  std::vector<T> strip(size_t{kStripColumns} * height);
  for (int left = 0; left < width; left += kStripColumns) {
    const int columns = std::min(kStripColumns, width - left);
    for (int y = 0; y < height; ++y) {
      const T* row = map + static_cast<size_t>(y) * width + left;
      for (int x = 0; x < columns; ++x) strip[static_cast<size_t>(x) * height + y] = row[x];
    }
    for (int x = 0; x < columns; ++x) visit(strip.data() + static_cast<size_t>(x) * height);
  }
}

// The first index from `begin` on where column differs from `value`, or `size`.
template <typename T>
int EndOfRun(const T* column, int begin, int size, T value) {
  constexpr int kAtOnce = static_cast<int>(16 / sizeof(T));
  int at = begin;
  T same[kAtOnce];
  std::fill_n(same, kAtOnce, value);
  while (at + kAtOnce <= size && std::memcmp(column + at, same, sizeof(same)) == 0) at += kAtOnce;
  while (at < size && column[at] == value) ++at;
  return at;
}

// Grows a mask's counts by its runs, which come in order.
struct RunWriter {
  std::vector<uint32_t> counts;
  int64_t end = 0;  // of the last run

  void Append(int64_t begin, int64_t size) {
    if (!counts.empty() && begin == end) {
      counts.back() += static_cast<uint32_t>(size);  // the run goes on in the next column
    } else {
      counts.push_back(static_cast<uint32_t>(begin - end));
      counts.push_back(static_cast<uint32_t>(size));
    }
    end = begin + size;
  }

  Rle Finish(int height, int width) && {
    const int64_t pixels = int64_t{height} * width;
    if (end < pixels || counts.empty()) counts.push_back(static_cast<uint32_t>(pixels - end));
    return {height, width, std::move(counts)};
  }
};

}  // namespace

Rle EncodeRle(const uint8_t* mask, int height, int width) {
  RunWriter writer;
  int64_t first = 0;  // column-major index of the column's first pixel
  ForEachColumn(mask, height, width, [&](const uint8_t* column) {
    for (int at = 0; at < height;) {
      at = EndOfRun(column, at, height, uint8_t{0});
      const int begin = at;
      while (at < height && column[at] != 0) at = EndOfRun(column, at, height, column[at]);
      if (at > begin) writer.Append(first + begin, at - begin);
    }
    first += height;
  });
  return std::move(writer).Finish(height, width);
}

std::vector<Rle> EncodeRleOfValues(const int32_t* map, int height, int width,
                                   absl::Span<const int32_t> values) {
  std::unordered_map<int32_t, RunWriter> writers;
  for (const int32_t value : values) writers.try_emplace(value);
  int64_t first = 0;
  ForEachColumn(map, height, width, [&](const int32_t* column) {
    for (int at = 0; at < height;) {
      const int end = EndOfRun(column, at, height, column[at]);
      if (const auto found = writers.find(column[at]); found != writers.end())
        found->second.Append(first + at, end - at);
      at = end;
    }
    first += height;
  });
  std::vector<Rle> rles;
  rles.reserve(values.size());
  for (const int32_t value : values)
    rles.push_back(std::move(writers.at(value)).Finish(height, width));
  return rles;
}

std::vector<uint8_t> DecodeRle(const Rle& rle) {
  std::vector<uint8_t> mask(static_cast<size_t>(rle.height) * rle.width);
  int64_t at = 0;
  for (size_t i = 0; i < rle.counts.size(); ++i) {
    const int64_t end = at + rle.counts[i];
    if (i % 2 == 1) {
      int64_t x = at / rle.height, y = at % rle.height;
      for (; at < end; ++at) {
        mask[y * rle.width + x] = 1;
        if (++y == rle.height) {
          y = 0;
          ++x;
        }
      }
    }
    at = end;
  }
  return mask;
}

int64_t RleArea(const Rle& rle) {
  int64_t area = 0;
  for (size_t i = 1; i < rle.counts.size(); i += 2) area += rle.counts[i];
  return area;
}

PixelRect RleBounds(const Rle& rle) {
  int64_t left = rle.width, right = -1, top = rle.height, bottom = -1;
  int64_t begin = 0;
  for (size_t i = 0; i < rle.counts.size(); ++i) {
    const int64_t end = begin + rle.counts[i];
    if (i % 2 == 1 && end > begin) {
      const int64_t first_column = begin / rle.height, last_column = (end - 1) / rle.height;
      left = std::min(left, first_column);
      right = std::max(right, last_column);
      if (last_column > first_column) {  // over the bottom of a column to the top of the next
        top = 0;
        bottom = rle.height - 1;
      } else {
        top = std::min(top, begin % rle.height);
        bottom = std::max(bottom, (end - 1) % rle.height);
      }
    }
    begin = end;
  }
  if (right < 0) return {};
  return {static_cast<int>(left), static_cast<int>(top), static_cast<int>(right - left + 1),
          static_cast<int>(bottom - top + 1)};
}

std::string CompressCounts(const std::vector<uint32_t>& counts) {
  std::string text;
  text.reserve(counts.size() * 2);
  for (size_t i = 0; i < counts.size(); ++i) {
    // From the fourth count on, the difference from the one before last, which has its colour.
    int64_t rest = counts[i];
    if (i > 2) rest -= counts[i - 2];
    bool more = true;
    while (more) {
      int digit = static_cast<int>(rest & 0x1f);
      rest >>= 5;  // arithmetic: keeps the sign
      more = (digit & 0x10) != 0 ? rest != -1 : rest != 0;
      if (more) digit |= 0x20;
      text.push_back(static_cast<char>(digit + 48));
    }
  }
  return text;
}

}  // namespace deform::pipeline
