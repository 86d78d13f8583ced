#include "dedloc/monitor/tensorboard.h"

#include <gtest/gtest.h>

namespace dedloc::monitor {
namespace {

// RFC 3720, B.4.
TEST(Tensorboard, its_checksum_is_castagnolis) {
    EXPECT_EQ(crc32c(Bytes(32, 0)), 0x8a9136aau);
    EXPECT_EQ(crc32c(Bytes(32, 0xff)), 0x62a8ab43u);
    EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283u);
}

// An Event message of event.proto with wall_time 1.5, step 7, loss 0.25.
TEST(Tensorboard, a_scalar_is_a_record_that_tensorboard_reads) {
    const Bytes file = to_tensorboard({{1.5, 7, "loss", 0.25}});
    const std::string text(file.begin(), file.end());
    EXPECT_NE(text.find("brain.Event:2"), std::string::npos);
    const Bytes event{0x09, 0,    0,    0,    0,   0,   0,   0xf8, 0x3f, 0x10, 7, 0x2a, 0x0d,
                      0x0a, 0x0b, 0x0a, 0x04, 'l', 'o', 's', 's',  0x15, 0,    0, 0x80, 0x3e};
    EXPECT_NE(text.find(std::string(event.begin(), event.end())), std::string::npos);
}

// TensorFlow's RecordWriter writes the same for the Event {wall_time: 1.5, file_version:
// "brain.Event:2"}: length, its masked checksum, the message, its masked checksum.
TEST(Tensorboard, the_first_record_is_framed_as_tensorflows) {
    const Bytes expected{0x18, 0,    0,    0,   0,   0,   0,    0,    0xa3, 0x7f,
                         0x4b, 0x22, 0x09, 0,   0,   0,   0,    0,    0,    0xf8,
                         0x3f, 0x1a, 0x0d, 'b', 'r', 'a', 'i',  'n',  '.',  'E',
                         'v',  'e',  'n',  't', ':', '2', 0x2a, 0x28, 0x64, 0x6c};
    EXPECT_EQ(tensorboard_begin(1.5), expected);
}

TEST(Tensorboard, numbers_of_one_step_share_a_record) {
    const Bytes together = tensorboard_records({{1.5, 7, "loss", 0.25}, {1.5, 7, "samples", 8}});
    const Bytes apart = tensorboard_records({{1.5, 7, "loss", 0.25}, {1.5, 8, "samples", 8}});
    EXPECT_LT(together.size() + 20, apart.size());
}

TEST(Csv, a_scalar_is_a_line) {
    EXPECT_EQ(to_csv({{1.5, 7, "loss", 0.25}}), "time,step,name,value\n1.500,7,loss,0.25\n");
}

}  // namespace
}  // namespace dedloc::monitor
