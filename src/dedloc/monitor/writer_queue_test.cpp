#include "dedloc/monitor/writer_queue.h"

#include <future>
#include <gtest/gtest.h>
#include <vector>

namespace dedloc::monitor {
namespace {

TEST(WriterQueue, writes_all_in_order_before_it_goes) {
    std::vector<int> written;
    {
        WriterQueue<int> queue(1000, [&](const std::deque<int>& batch, std::uint64_t dropped) {
            EXPECT_FALSE(batch.empty());
            EXPECT_EQ(dropped, 0u);
            written.insert(written.end(), batch.begin(), batch.end());
        });
        queue.add(0);
        queue.flush();
        EXPECT_EQ(written, std::vector<int>{0});
        for (int item = 1; item < 1000; ++item) queue.add(item);
    }
    ASSERT_EQ(written.size(), 1000u);
    for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(written[i], static_cast<int>(i));
}

TEST(WriterQueue, nobody_waits_for_a_slow_writer_and_what_is_dropped_is_counted) {
    std::promise<void> begun, goes_on;
    std::vector<std::deque<int>> batches;
    std::vector<std::uint64_t> dropped;
    WriterQueue<int> queue(2, [&](const std::deque<int>& batch, std::uint64_t lost) {
        batches.push_back(batch);
        dropped.push_back(lost);
        if (batches.size() > 1) return;
        begun.set_value();
        goes_on.get_future().wait();
    });
    queue.add(1);
    begun.get_future().wait();
    for (const int item : {2, 3, 4, 5, 6}) queue.add(item);
    goes_on.set_value();
    queue.flush();
    queue.add(7);
    queue.flush();
    EXPECT_EQ(batches, (std::vector<std::deque<int>>{{1}, {2, 3}, {7}}));
    EXPECT_EQ(dropped, (std::vector<std::uint64_t>{0, 3, 0}));
}

}  // namespace
}  // namespace dedloc::monitor
