#include "train/cpu/one_thread.hpp"

#include <cblas.h>
#include <omp.h>

namespace rubato::train {

OneThread::OneThread() : before_(omp_get_max_threads()) {
  [[maybe_unused]] static const bool blas_alone = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  omp_set_num_threads(1);
}

OneThread::~OneThread() {
  omp_set_num_threads(before_);
}

}  // namespace rubato::train
