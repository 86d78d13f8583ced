// PieceStore: where the pieces of a catalogue lie on this machine.
//
//   OwnStore    all of them, read from the owner's own files: the host's
//   PieceCache  those that were fetched, in files of their own, within a bound: the oldest go
//
// A cached piece lies there with its path and is checked when it is read: what a disk has damaged
// is forgotten, and fetched again.
//
// Thread: has(), touch() and whole() on the network thread; read() and keep() block, one at a time
// each on a worker.

#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "dedloc/data/catalogue.h"
#include "dedloc/data/homes.h"
#include "dedloc/runtime/disk.h"

namespace dedloc::data {

class PieceStore {
  public:
    virtual ~PieceStore() = default;
    virtual bool has(std::uint64_t index) const = 0;
    virtual bool is_whole() const { return false; }
    // not_found: it is not here (any more).
    virtual Result<Piece> read(std::uint64_t index) = 0;
    // The piece has been checked.
    virtual Ok keep(std::uint64_t index, const Piece& piece) = 0;
    // Which pieces go last: this machine's share of what all together keep.
    virtual void set_homes(std::shared_ptr<const PieceHomes>) {}
    virtual std::uint64_t bytes() const { return 0; }  // kept
    virtual std::uint64_t bytes_max() const { return 0; }
};

class OwnStore final : public PieceStore {
  public:
    explicit OwnStore(OwnPieces own) : own_(std::move(own)) {}
    bool has(std::uint64_t index) const override { return index < own_.catalogue.count(); }
    bool is_whole() const override { return true; }
    Result<Piece> read(std::uint64_t index) override { return own_.piece(index); }
    Ok keep(std::uint64_t, const Piece&) override { return {}; }

  private:
    OwnPieces own_;
};

class PieceCache final : public PieceStore {
  public:
    // Reads which pieces lie in `folder` already.
    PieceCache(runtime::Disk& disk,
               std::string folder,
               std::shared_ptr<const Catalogue> catalogue,
               std::uint64_t bytes_max);

    void set_homes(std::shared_ptr<const PieceHomes> homes) override;
    bool has(std::uint64_t index) const override;
    Result<Piece> read(std::uint64_t index) override;
    Ok keep(std::uint64_t index, const Piece& piece) override;
    std::uint64_t bytes() const override;
    std::uint64_t bytes_max() const override { return bytes_max_; }

  private:
    std::string path_of(std::uint64_t index) const;
    void find_pieces();
    void forget(std::uint64_t index);         // with the lock
    void make_room(std::uint64_t for_bytes);  // with the lock
    void note(std::uint64_t index);           // with the lock

    runtime::Disk& disk_;
    std::string folder_;
    std::shared_ptr<const Catalogue> catalogue_;
    std::uint64_t bytes_max_;
    std::shared_ptr<const PieceHomes> homes_;

    mutable std::mutex mutex_;
    std::list<std::uint64_t> by_use_;  // the longest unused first
    std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
    std::uint64_t bytes_ = 0;
};

}  // namespace dedloc::data
