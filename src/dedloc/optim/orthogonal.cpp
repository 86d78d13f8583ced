#include "dedloc/optim/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "dedloc/optim/muon_kernels.h"
#include "dedloc/optim/optimizer_kernels.h"
#include "dedloc/optim/stretches.h"

namespace dedloc::optim {
namespace {

constexpr float linear_term = 3.4445f;
constexpr float cubic_term = -4.7750f;
constexpr float quintic_term = 2.0315f;
constexpr double norm_min = 1e-7;
constexpr std::size_t rows_of_task = 32;

using Matrix = std::vector<float>;

void multiply(const Matrix& a,
              std::span<const float> b,
              std::size_t rows,
              std::size_t inner,
              std::size_t columns,
              std::span<float> out,
              const ParallelFor& parallel_for) {
    in_stretches(rows, rows_of_task, parallel_for, [&](std::size_t row, std::size_t count) {
        rows_of_product(
            a.data() + row * inner, b.data(), count, inner, columns, out.data() + row * columns);
    });
}

// to[column][row] = from[row][column], in squares that stay in a cache.
void transpose(std::span<const float> from,
               std::size_t rows,
               std::size_t columns,
               std::span<float> to,
               const ParallelFor& parallel_for) {
    in_stretches(rows, rows_of_task, parallel_for, [&](std::size_t first, std::size_t count) {
        for (std::size_t left = 0; left < columns; left += rows_of_task)
            for (std::size_t row = first; row < first + count; ++row)
                for (std::size_t column = left; column < std::min(columns, left + rows_of_task);
                     ++column)
                    to[column * rows + row] = from[row * columns + column];
    });
}

double norm_of(std::span<const float> x, const ParallelFor& parallel_for) {
    std::vector<double> squares((x.size() + chunk_elements - 1) / chunk_elements);
    in_stretches(x.size(), chunk_elements, parallel_for, [&](std::size_t begin, std::size_t count) {
        squares[begin / chunk_elements] = chunk_sum_of_squares(x.data() + begin, count);
    });
    double sum = 0;
    for (const double one : squares) sum = sum + one;
    return std::sqrt(sum);
}

}  // namespace

void orthogonalize(std::span<float> matrix,
                   std::size_t columns,
                   std::uint64_t steps,
                   const ParallelFor& parallel_for) {
    const std::size_t rows = matrix.size() / columns;
    const std::size_t low = std::min(rows, columns);
    const std::size_t high = std::max(rows, columns);
    Matrix x(matrix.size());  // low × high
    if (rows > columns)
        transpose(matrix, rows, columns, x, parallel_for);
    else
        std::ranges::copy(matrix, x.begin());
    const auto scale = static_cast<float>(1.0 / std::max(norm_of(matrix, parallel_for), norm_min));
    for (float& value : x) value = value * scale;
    Matrix gram(low * low);
    Matrix square(low * low);
    for (std::uint64_t step = 0; step < steps; ++step) {
        transpose(x, low, high, matrix, parallel_for);  // `matrix` is memory for two things
        multiply(x, matrix, low, high, low, gram, parallel_for);
        multiply(gram, gram, low, low, low, square, parallel_for);
        scale_and_add(gram, cubic_term, quintic_term, square, parallel_for);
        multiply(gram, x, low, low, high, matrix, parallel_for);
        scale_and_add(x, linear_term, 1.0f, matrix, parallel_for);
    }
    if (rows > columns)
        transpose(x, low, high, matrix, parallel_for);
    else
        std::ranges::copy(x, matrix.begin());
}

}  // namespace dedloc::optim
