// The precompiled header of rooms with coroutines: what they need of Asio, beside every room's.
#pragma once
#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "dedloc/base/pch.h"
