#include "cli/progress.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/text_table.h"

namespace deform::client {
namespace {

constexpr base::Duration kLineInterval = std::chrono::seconds(5);
constexpr base::Duration kDrawInterval = std::chrono::milliseconds(100);
constexpr int kLongestBar = 40;
constexpr int kShortestBar = 5;

double Seconds(base::Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Progress::Progress(Console& console, const base::Clock& clock, size_t total)
    : console_(console), clock_(clock), total_(total), start_(clock.Now()), last_line_(start_) {}

void Progress::Advance(bool failed) {
  ++done_;
  if (failed) ++failed_;
  if (total_ < 2) return;
  const base::TimePoint now = clock_.Now();
  if (console_.err_is_terminal) {
    if (!visible_ || !last_drawn_ || now - *last_drawn_ >= kDrawInterval) Show();
  } else if (now - last_line_ >= kLineInterval && done_ < total_) {
    last_line_ = now;
    console_.err << done_ << " of " << total_ << " pictures";
    if (failed_ > 0) console_.err << ", " << failed_ << " failed";
    console_.err << TimeLeft() << std::endl;
  }
}

void Progress::Hide() {
  if (!visible_) return;
  console_.err << "\r\x1b[K" << std::flush;
  visible_ = false;
}

void Progress::Show() {
  if (total_ < 2 || !console_.err_is_terminal || done_ == total_) {
    Hide();
    return;
  }
  console_.err << '\r' << BarText() << "\x1b[K" << std::flush;
  visible_ = true;
  last_drawn_ = clock_.Now();
}

std::string Progress::BarText() const {
  std::string counts = absl::StrCat(" ", done_, "/", total_);
  if (failed_ > 0) absl::StrAppend(&counts, ", ", failed_, " failed");
  absl::StrAppend(&counts, TimeLeft());
  // One column is left free: a full last column makes some terminals wrap.
  const int room = console_.err_columns - 1 - static_cast<int>(DisplayWidth(counts));
  const int length = std::min(kLongestBar, room);
  if (length < kShortestBar) return counts.substr(1, std::max(0, console_.err_columns - 1));
  const int filled = static_cast<int>(length * done_ / total_);
  std::string bar;
  for (int i = 0; i < length; ++i) bar += i < filled ? "━" : "╌";
  return bar + counts;
}

std::string Progress::TimeLeft() const {
  const double elapsed = Seconds(clock_.Now() - start_);
  if (done_ == 0 || elapsed <= 0) return {};
  const auto left = static_cast<int64_t>(elapsed / done_ * (total_ - done_) + 0.5);
  return absl::StrFormat(", %.1f/s, %d:%02d left", done_ / elapsed, left / 60, left % 60);
}

}  // namespace deform::client
