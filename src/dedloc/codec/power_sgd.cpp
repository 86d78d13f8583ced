#include "dedloc/codec/power_sgd.h"

#include <algorithm>
#include <cmath>

#include "dedloc/base/float_environment.h"
#include "dedloc/base/random.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

constexpr double length_smallest = 1e-8;  // hivemind's eps

Ok check_factor(std::span<const float> factor, std::size_t count, const char* name) {
    if (factor.size() != count)
        return make_error(
            ErrorKind::bad_input, "factor {} has {} numbers, not {}", name, factor.size(), count);
    if (!tensor::all_finite(factor))
        return make_error(ErrorKind::bad_input, "factor {} has non-finite numbers", name);
    return {};
}

}  // namespace

std::optional<MatrixShape> matrix_shape(std::span<const std::int64_t> shape,
                                        std::size_t rank,
                                        double saving_least) {
    std::vector<double> axes;  // exact up to 2^53, and no overflow to think of
    double elements = 1;
    for (const std::int64_t size : shape) {
        axes.push_back(static_cast<double>(size));
        elements *= static_cast<double>(size);
    }
    if (axes.size() < 2 || elements < 1 || elements > 0x1p53) return std::nullopt;
    while (axes.size() > 2) {
        std::size_t smallest = 0;
        for (std::size_t i = 1; i + 1 < axes.size(); ++i)
            if (axes[i] * axes[i + 1] < axes[smallest] * axes[smallest + 1]) smallest = i;
        axes[smallest] *= axes[smallest + 1];
        axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(smallest) + 1);
    }
    const double saving = 1 - static_cast<double>(rank) * (axes[0] + axes[1]) / elements;
    if (saving < saving_least) return std::nullopt;
    return MatrixShape{static_cast<std::size_t>(axes[0]), static_cast<std::size_t>(axes[1])};
}

void orthonormalize(std::span<float> vectors, std::size_t count) {
    const FloatEnvironmentGuard guard;
    const std::size_t length = count == 0 ? 0 : vectors.size() / count;
    DEDLOC_CHECK(length * count == vectors.size());
    for (std::size_t i = 0; i < count; ++i) {
        const std::span<float> vector = vectors.subspan(i * length, length);
        const double size = std::max(std::sqrt(tensor::sum_of_squares(vector)), length_smallest);
        for (float& value : vector) value = static_cast<float>(static_cast<double>(value) / size);
        for (std::size_t j = i + 1; j < count; ++j) {
            const std::span<float> other = vectors.subspan(j * length, length);
            tensor::add_weighted(other, vector, static_cast<float>(-tensor::dot(vector, other)));
        }
    }
}

void times(std::span<const float> m,
           MatrixShape shape,
           std::span<const float> q,
           std::span<float> p) {
    const std::size_t count = p.size() / shape.rows;
    DEDLOC_CHECK(p.size() == count * shape.rows && q.size() == count * shape.columns);
    for (std::size_t row = 0; row < shape.rows; ++row)
        for (std::size_t k = 0; k < count; ++k) {
            const auto vector = q.subspan(k * shape.columns, shape.columns);
            const auto values = m.subspan(row * shape.columns, shape.columns);
            p[k * shape.rows + row] = static_cast<float>(tensor::dot(values, vector));
        }
}

void transposed_times(std::span<const float> m,
                      MatrixShape shape,
                      std::span<const float> p,
                      std::span<float> q) {
    const std::size_t count = p.size() / shape.rows;
    DEDLOC_CHECK(p.size() == count * shape.rows && q.size() == count * shape.columns);
    std::ranges::fill(q, 0.0f);
    for (std::size_t row = 0; row < shape.rows; ++row)
        for (std::size_t k = 0; k < count; ++k) {
            const auto vector = q.subspan(k * shape.columns, shape.columns);
            const auto values = m.subspan(row * shape.columns, shape.columns);
            tensor::add_weighted(vector, values, p[k * shape.rows + row]);
        }
}

PowerSgd::PowerSgd(MatrixShape shape, std::size_t rank, std::uint64_t seed)
    : shape_(shape), rank_(rank), m_(shape.rows * shape.columns, 0.0f), q_(rank * shape.columns) {
    DEDLOC_CHECK(rank >= 1 && shape.rows >= 1 && shape.columns >= 1);
    Random random(seed);  // no libm in it, so that all peers begin alike
    for (float& value : q_) value = static_cast<float>(random.uniform() - 0.5);
}

Result<std::vector<float>> PowerSgd::first_factor(std::span<const float> gradient) {
    DEDLOC_CHECK(stage_ == Stage::idle, "finish() or abandon() the last round first");
    DEDLOC_CHECK(gradient.size() == m_.size(), "{} of {}", gradient.size(), m_.size());
    std::vector<float> pending = m_;
    tensor::add_weighted(pending, gradient, 1.0f);
    if (!tensor::all_finite(pending))
        return make_error(ErrorKind::bad_input, "a gradient has non-finite numbers");
    std::vector<float> p(p_count());
    times(pending, shape_, q_, p);
    DEDLOC_TRY_VOID(check_factor(p, p_count(), "P"));
    m_ = std::move(pending);
    stage_ = Stage::first;
    return p;
}

Result<std::vector<float>> PowerSgd::second_factor(std::span<const float> averaged_p) {
    DEDLOC_CHECK(stage_ == Stage::first, "first_factor() comes before");
    DEDLOC_TRY_VOID(check_factor(averaged_p, p_count(), "P"));
    p_.assign(averaged_p.begin(), averaged_p.end());
    orthonormalize(p_, rank_);
    own_q_.resize(q_count());
    transposed_times(m_, shape_, p_, own_q_);
    DEDLOC_TRY_VOID(check_factor(own_q_, q_count(), "Q"));
    stage_ = Stage::second;
    return own_q_;
}

Ok PowerSgd::finish(std::span<const float> averaged_q, bool taken, std::span<float> out) {
    DEDLOC_CHECK(stage_ == Stage::second, "second_factor() comes before");
    DEDLOC_CHECK(out.size() == m_.size(), "{} of {}", out.size(), m_.size());
    DEDLOC_TRY_VOID(check_factor(averaged_q, q_count(), "Q"));
    std::vector<float> sent(shape_.columns);
    const auto expand = [&](std::span<const float> q, std::size_t row, std::span<float> target) {
        std::fill(target.begin(), target.end(), 0.0f);
        for (std::size_t k = 0; k < rank_; ++k)
            tensor::add_weighted(
                target, q.subspan(k * shape_.columns, shape_.columns), p_[k * shape_.rows + row]);
    };
    for (std::size_t row = 0; row < shape_.rows; ++row) {
        const std::size_t at = row * shape_.columns;
        expand(averaged_q, row, out.subspan(at, shape_.columns));
        if (!taken) continue;
        expand(own_q_, row, sent);
        tensor::add_weighted(std::span(m_).subspan(at, shape_.columns), sent, -1.0f);
    }
    // A column of zeros (a gradient that was zero everywhere) would stay zero for ever, and all
    // that comes after it unsent. All peers keep the same one: they have the same averages.
    for (std::size_t k = 0; k < rank_; ++k) {
        const auto column = averaged_q.subspan(k * shape_.columns, shape_.columns);
        if (std::ranges::all_of(column, [](float x) { return x == 0.0f; })) continue;
        std::ranges::copy(column, q_.begin() + static_cast<std::ptrdiff_t>(k * shape_.columns));
    }
    stage_ = Stage::idle;
    return {};
}

void PowerSgd::abandon() { stage_ = Stage::idle; }

Ok PowerSgd::set_q(std::span<const float> q) {
    DEDLOC_CHECK(stage_ == Stage::idle, "not in the middle of a round");
    DEDLOC_TRY_VOID(check_factor(q, q_count(), "Q"));
    q_.assign(q.begin(), q.end());
    return {};
}

}  // namespace dedloc::codec
