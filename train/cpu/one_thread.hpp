// train/cpu/one_thread.hpp - while it lives, the calling thread computes alone: oneDNN (OpenMP, a
// setting of each thread) and OpenBLAS (a setting of the process, made once and kept).
// So a device gives the same bits on whatever thread it runs, and devices do not fight for cores.
#pragma once

namespace rubato::train {

class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace rubato::train
