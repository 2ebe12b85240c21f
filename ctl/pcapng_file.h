// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A pcapng file that always ends with a whole block, also if the disk is full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vrdma::ctl {

class PcapngFile {
  public:
    explicit PcapngFile(std::string path) : path_{std::move(path)} {}
    PcapngFile(const PcapngFile&) = delete;
    PcapngFile& operator=(const PcapngFile&) = delete;
    ~PcapngFile();

    // Returns false if that fails. The file is made with the first bytes, so there is none if
    // nothing comes.
    bool add(std::string_view bytes);

    const std::string& problem() const { return problem_; } // for people; empty: none
    bool reader_left() const { return reader_left_; }       // of a pipe
    std::uint64_t frames() const { return frames_; }
    std::uint64_t dropped() const { return dropped_; }

  private:
    bool open();
    bool write(std::string_view blocks);
    bool fail(int error);
    void count(std::string_view block);

    const std::string path_;
    int fd_ = -1;
    std::string rest_; // of a block that is not there completely
    std::uint64_t size_ = 0;
    std::uint64_t frames_ = 0;
    std::uint64_t dropped_ = 0;
    std::string problem_;
    bool reader_left_ = false;
};

} // namespace vrdma::ctl
