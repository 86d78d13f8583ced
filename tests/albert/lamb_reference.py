"""LAMB in numpy and double precision: the reference that optim::step is compared with.

As torch_optimizer 0.1.0 (the DeDLOC ALBERT runs): m and v without correction; the direction is
m / (sqrt(v) + epsilon) + decay * p; the trust ratio is min(norm(p), clamp) / norm(direction), 1
where either is 0; the step is rate * sqrt(1 - b2^t) / (1 - b1^t) * trust * direction.
"""

from __future__ import annotations

from pathlib import Path

import numpy

STEPS = 100
RATE = 0.02
WARMUP = 20
TOTAL = 200
BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-6
DECAY = 0.01
CLAMP = 10.0
# Shapes of the tensors; only those of rank 2 decay.
SHAPES = [(12, 7), (7,), (5, 12), (3,), (9, 11)]


def rate_at(step: int) -> float:
    """Up in WARMUP steps, straight down to 0 at TOTAL; the first step already moves."""
    if step < WARMUP:
        return RATE * (step + 1) / WARMUP
    return RATE * (TOTAL - step) / (TOTAL - WARMUP)


def gradient(step: int, tensor: int, shape: tuple) -> numpy.ndarray:
    """Any numbers do; these are fp32 values that depend on the step."""
    random = numpy.random.default_rng(1000 * step + tensor)
    return (random.standard_normal(shape) * 10.0 ** (tensor - 2)).astype(numpy.float32)


def trajectory() -> dict[str, numpy.ndarray]:
    random = numpy.random.default_rng(3)
    values = [random.standard_normal(shape).astype(numpy.float32) for shape in SHAPES]
    values[3][:] = 0  # a tensor with norm 0: trust is 1
    result = {f"start.{i}": value.copy() for i, value in enumerate(values)}
    parameters = [value.astype(numpy.float64) for value in values]
    first = [numpy.zeros_like(value) for value in parameters]
    second = [numpy.zeros_like(value) for value in parameters]
    gradients = []
    for step in range(STEPS):
        correction = numpy.sqrt(1 - BETA2 ** (step + 1)) / (1 - BETA1 ** (step + 1))
        for i, shape in enumerate(SHAPES):
            g32 = gradient(step, i, shape)
            gradients.append(g32.reshape(-1))
            g = g32.astype(numpy.float64)
            first[i] = BETA1 * first[i] + (1 - BETA1) * g
            second[i] = BETA2 * second[i] + (1 - BETA2) * g * g
            direction = first[i] / (numpy.sqrt(second[i]) + EPSILON)
            if len(shape) == 2:
                direction = direction + DECAY * parameters[i]
            norm = min(numpy.linalg.norm(parameters[i]), CLAMP)
            length = numpy.linalg.norm(direction)
            trust = norm / length if norm > 0 and length > 0 else 1.0
            parameters[i] = parameters[i] - rate_at(step) * correction * trust * direction
        if step + 1 in (1, 10, STEPS):
            flat = numpy.concatenate([value.reshape(-1) for value in parameters])
            result[f"after.{step + 1}"] = flat.astype(numpy.float32)
    result["gradients"] = numpy.concatenate(gradients).reshape(STEPS, -1)
    return result


def write(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file(trajectory(), str(path))
