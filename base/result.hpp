// base/result.hpp - expected failures (bad input, a peer gone, a corrupt frame) as values.
// An Error's message is one line a user can act on: what, which key or peer, what to do.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/utf8.hpp"

namespace rubato {

enum class ErrorCode {
  BadInput,     // config, flag or data the user can mend: exit code 2
  Io,           // a file or socket operation failed
  Corrupt,      // bytes that fail verification, a checksum or a range check
  Refused,      // a peer said no, and why
  Timeout,      // a deadline passed; the message names the peer and the operation
  Gone,         // the run that this node took part in is over: a new start joins the next one
  Unsupported,  // this build or machine cannot do it
  Stopped,      // asked to stop while waiting
  Missed,       // a run has ended as its file says, without reaching its target: exit code 3
};

struct Error {
  ErrorCode code = ErrorCode::BadInput;
  std::string message;

  Error() = default;
  // The text may quote a file or a peer, which may say anything: it stays one line.
  Error(ErrorCode of, std::string text) : code(of), message(printable(std::move(text))) {}
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace rubato

// Returns the error of `expression` from the enclosing function, if it has one.
#define RUBATO_TRY(expression)                                                  \
  do {                                                                          \
    if (auto rubato_try_ = (expression); !rubato_try_)                          \
      return ::tl::unexpected<::rubato::Error>(std::move(rubato_try_.error())); \
  } while (false)

// `RUBATO_ASSIGN(auto x, f());` declares x from the value, or returns the error.
#define RUBATO_ASSIGN_CAT2(a, b) a##b
#define RUBATO_ASSIGN_CAT(a, b) RUBATO_ASSIGN_CAT2(a, b)
#define RUBATO_ASSIGN(declaration, expression)                           \
  auto RUBATO_ASSIGN_CAT(rubato_assign_, __LINE__) = (expression);       \
  if (!RUBATO_ASSIGN_CAT(rubato_assign_, __LINE__))                      \
    return ::tl::unexpected<::rubato::Error>(                            \
        std::move(RUBATO_ASSIGN_CAT(rubato_assign_, __LINE__).error())); \
  declaration = std::move(*RUBATO_ASSIGN_CAT(rubato_assign_, __LINE__))
