#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/console.h"

namespace deform::client {

// How far many pictures have come: one bar at the bottom of a terminal, elsewhere a line every five
// seconds, nothing at all for a single picture. Not thread-safe.
class Progress {
 public:
  // `console` and `clock` outlive this.
  Progress(Console& console, const base::Clock& clock, size_t total);

  // One more picture has ended.
  void Advance(bool failed);

  // Takes the bar off the screen so that something else can be written; the next Advance or Show
  // brings it back.
  void Hide();
  void Show();

 private:
  std::string BarText() const;
  std::string TimeLeft() const;

  Console& console_;
  const base::Clock& clock_;
  size_t total_;
  size_t done_ = 0;
  size_t failed_ = 0;
  base::TimePoint start_;
  base::TimePoint last_line_;
  std::optional<base::TimePoint> last_drawn_;
  bool visible_ = false;
};

}  // namespace deform::client
