// Asio's own functions, compiled once for all who include its headers (ASIO_SEPARATE_COMPILATION).
#include <asio/impl/src.hpp>
