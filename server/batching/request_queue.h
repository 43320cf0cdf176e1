#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/clock.h"
#include "batching/batch_policy.h"
#include "batching/drop_reason.h"

namespace deform::batching {

// Requests that wait to be joined into a batch, first come first served. It decides everything by
// the `now` it is given and has no thread and no lock of its own, so that its decisions can be
// tested as tables. Thread-compatible: the owner locks.
template <typename Payload>
class RequestQueue {
 public:
  struct Entry {
    Payload payload;
    int rows = 1;  // that stay together in one batch; at least 1
    base::TimePoint deadline = base::TimePoint::max();
    base::CancellationPtr cancellation{};  // may be null
    base::TimePoint enqueued{};            // set by Push
  };
  // An entry that left the queue without having been dispatched; its owner still has to answer it.
  struct Dropped {
    Entry entry;
    DropReason reason;
  };
  struct Taken {
    std::vector<Entry> batch;  // may be empty
    std::vector<Dropped> dropped;
  };
  enum class PushResult { kQueued, kFull, kExpired, kCancelled };

  explicit RequestQueue(BatchPolicy policy) : policy_(policy) {}

  // Appends `entry`. It is moved from only when the result is kQueued. An entry whose deadline is
  // past, or that was cancelled, is refused. Entries that only Sweep would remove count as waiting.
  // `now` never goes back from one call to the next. REQUIRES: entry.rows >= 1.
  PushResult Push(Entry&& entry, base::TimePoint now) {
    if (auto reason = WhyDrop(entry.deadline, entry.cancellation, now))
      return *reason == DropReason::kExpired ? PushResult::kExpired : PushResult::kCancelled;
    if (full()) return PushResult::kFull;
    waiting_rows_ += entry.rows;
    entry.enqueued = now;
    entries_.push_back(std::move(entry));
    return PushResult::kQueued;
  }

  // Removes the entries that expired or were cancelled, wherever they are. One pass.
  std::vector<Dropped> Sweep(base::TimePoint now) {
    std::vector<Dropped> dropped;
    auto kept = entries_.begin();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (auto reason = WhyDrop(entry->deadline, entry->cancellation, now)) {
        waiting_rows_ -= entry->rows;
        dropped.push_back({std::move(*entry), *reason});
        continue;
      }
      if (kept != entry) *kept = std::move(*entry);
      ++kept;
    }
    entries_.erase(kept, entries_.end());
    return dropped;
  }

  // When a batch is to be taken (see BatchDueAt). REQUIRES: not empty.
  base::TimePoint DueAt() const {
    return BatchDueAt(policy_, entries_.size(), waiting_rows_, entries_.front().enqueued);
  }

  // When Sweep next has something to remove if nobody cancels; max() for never. Looks at every
  // entry, which is little where it matters: an owner waits only while less than a batch does.
  base::TimePoint EarliestDeadline() const {
    base::TimePoint earliest = base::TimePoint::max();
    for (const Entry& entry : entries_)
      if (entry.deadline < earliest) earliest = entry.deadline;
    return earliest;
  }

  // Takes entries from the head while their rows fit in `max_rows`; one that doesn't fit stays at
  // the head for the next batch, and later ones don't overtake it. An entry that has more than
  // `max_rows` rows goes alone. Entries that expired or were cancelled since the last Sweep come
  // back as dropped, never in the batch.
  Taken TakeBatch(base::TimePoint now, int max_rows) {
    Taken taken;
    int64_t rows = 0;
    while (!entries_.empty() && (taken.batch.empty() || rows < max_rows)) {
      Entry& head = entries_.front();
      const auto reason = WhyDrop(head.deadline, head.cancellation, now);
      if (!reason && !taken.batch.empty() && rows + head.rows > max_rows) break;
      waiting_rows_ -= head.rows;
      if (reason) {
        taken.dropped.push_back({std::move(head), *reason});
      } else {
        rows += head.rows;
        taken.batch.push_back(std::move(head));
      }
      entries_.pop_front();
    }
    return taken;
  }

  bool empty() const { return entries_.empty(); }
  bool full() const { return entries_.size() >= policy_.capacity; }
  size_t size() const { return entries_.size(); }
  int64_t waiting_rows() const { return waiting_rows_; }
  const BatchPolicy& policy() const { return policy_; }

 private:
  const BatchPolicy policy_;
  std::deque<Entry> entries_;
  int64_t waiting_rows_ = 0;  // sum of entries_[i].rows
};

}  // namespace deform::batching
