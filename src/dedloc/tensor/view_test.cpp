#include "dedloc/tensor/view.h"

#include <gtest/gtest.h>
#include <vector>

namespace dedloc::tensor {
namespace {

TEST(TensorView, dtype_names_are_pytorchs) {
    for (const auto text :
         {"float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool"}) {
        EXPECT_EQ(to_string(*dtype_from_string(text)), text);
    }
    EXPECT_EQ(dtype_from_string("complex64").error().kind(), ErrorKind::unsupported);
}

TEST(TensorView, a_shape_that_does_not_fit_is_refused) {
    const std::vector<std::int64_t> huge = {std::int64_t{1} << 40, std::int64_t{1} << 40};
    EXPECT_FALSE(elements_of(huge));
    const std::vector<std::int64_t> negative = {3, -1};
    EXPECT_FALSE(elements_of(negative));
    const std::vector<std::int64_t> empty = {std::int64_t{1} << 62, std::int64_t{1} << 62, 0};
    EXPECT_TRUE(!elements_of(empty) || *elements_of(empty) == 0u);
    EXPECT_EQ(*elements_of({}), 1u);
}

TEST(TensorView, bytes_must_be_what_the_shape_says) {
    const std::vector<std::int64_t> shape = {2, 3};
    const Bytes bytes(24);
    EXPECT_TRUE(check({Dtype::float32, shape, bytes}));
    EXPECT_FALSE(check({Dtype::float16, shape, bytes}));
    EXPECT_EQ((TensorView{Dtype::float32, shape, bytes}).elements_count(), 6u);
}

}  // namespace
}  // namespace dedloc::tensor
