// The `rubato` command: a row of command_table.hpp is asked for, and runs.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "base/nearest.hpp"
#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "cli/command_table.hpp"
#include "cli/commands.hpp"
#include "cli/examples.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "report/host_info.hpp"

namespace rubato::cli {
namespace {

// "unknown option --sedes; did you mean --seeds?", or the text of CLI11.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& error, int argc,
                          char** argv) {
  const auto commands = app.get_subcommands();
  std::vector<std::string> known;
  if (commands.empty() && argc > 1) {
    for (const auto* command : app.get_subcommands({})) known.push_back(command->get_name());
    return fmt::format("unknown command {}{}", argv[1], suggestion(argv[1], known));
  }
  for (const auto& word : app.remaining(true)) {
    if (!word.starts_with("--")) continue;
    for (const auto* option : commands.front()->get_options())
      if (option->get_name().starts_with("--")) known.push_back(option->get_name());
    return fmt::format("unknown option {}{}", word, suggestion(word, known));
  }
  return error.what();
}

// CLI11 reports on several lines; ours is one: what is wrong, and where to read more.
int report_usage(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string about = "rubato";
  for (const auto* command : app.get_subcommands()) about += " " + command->get_name();
  return report_error(
      {ErrorCode::BadInput,
       fmt::format("{}; see {} --help", usage_problem(app, error, argc, argv), about)});
}

// Where the texts of options begin. CLI11 alone takes 30.
std::size_t help_column(std::size_t columns) {
  return std::clamp<std::size_t>(columns / 3, 12, 30);
}

// The help in lines of the terminal's width. A command of an example stays in one line, so that it
// can be copied.
std::string help_text(const std::string& text) {
  constexpr std::size_t kIndent = 6;
  const std::size_t columns = text_columns(stdout);
  const auto examples = std::min(text.find("Examples:\n"), text.size());
  std::string all = wrapped(text.substr(0, examples), columns, help_column(columns));
  std::istringstream lines(text.substr(examples));
  for (std::string line; std::getline(lines, line); all += '\n')
    all += line.starts_with("  rubato ") ? line : wrapped(line, columns, kIndent);
  return all;
}

std::string command_line(int argc, char** argv) {
  std::string line = "rubato";
  for (int i = 1; i < argc; ++i) line += std::string(" ") + argv[i];
  return line;
}

}  // namespace

int report_error(const Error& error) {
  if (room_for_last_line(stderr)) write_line(stderr, "rubato: " + error.message);
  switch (error.code) {
    case ErrorCode::Stopped:
      return exit_interrupted();
    case ErrorCode::Missed:
      return kExitMissed;
    case ErrorCode::BadInput:
    case ErrorCode::Refused:
    case ErrorCode::Unsupported:
      return 2;
    default:
      return 1;
  }
}

int threads_of(int asked) {
  return asked > 0 ? asked : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int exit_code(const Result<void>& done) {
  return done ? 0 : report_error(done.error());
}

namespace {

struct Added {
  const Command* command;
  CLI::App* app;
  std::function<int(const Invocation&)> run;
};

// Every command shows examples of its own, and so do the kinds that some have.
Added add_to(CLI::App& app, const Command& command) {
  const std::string path = command.name;
  const auto last = path.rfind(' ');
  CLI::App* above = last == path.npos ? &app : app.get_subcommand(path.substr(0, last));
  CLI::App* its = above->add_subcommand(path.substr(last + 1), command.about);
  Added added{&command, its, command.add(its)};
  its->footer(examples_of(path));
  for (CLI::App* kind : its->get_subcommands({}))
    kind->footer(examples_of(path + " " + kind->get_name()));
  return added;
}

Result<void> check_limits(Needs needs) {
  if (needs == Needs::NodeLimits) RUBATO_TRY(check_address_space());
  if (needs != Needs::Nothing) RUBATO_TRY(check_descriptors(0));
  return {};
}

int run(int argc, char** argv) {
  constexpr std::size_t kThreadsMin = 8;  // of a command, or of a node
  if (const auto enough = check_threads(kThreadsMin); !enough) return report_error(enough.error());
  CLI::App app("Rubato: a parameter server for unequal machines", "rubato");
  app.get_formatter()->column_width(help_column(text_columns(stdout)));
  app.set_version_flag("--version", std::string("rubato ") + std::string(report::version()));
  app.require_subcommand(1);

  std::vector<Added> added;
  for (const Command& command : commands()) added.push_back(add_to(app, command));
  app.footer(examples_of("") + kExitCodes);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      const int code = app.exit(error, text);
      print_text("{}", help_text(text.str()));
      return code;
    }
    return report_usage(app, error, argc, argv);
  }
  // Groups have no runner, and what is below them stands behind them.
  const auto asked =
      std::ranges::find_if(added, [](const Added& each) { return each.run && each.app->parsed(); });
  // Before the first thread of ours: it might not get its stack.
  if (const auto enough = check_limits(asked->command->needs); !enough)
    return report_error(enough.error());
  return asked->run({command_line(argc, argv), watch_interrupts()});
}

}  // namespace
}  // namespace rubato::cli

int main(int argc, char** argv) {
  rubato::cli::catch_interrupts();
  rubato::cli::keep_standard_streams();
  rubato::keep_freed_memory();
  rubato::live_within_limits();
  // Whoever started us may have it ignored: then children that end leave no word.
  std::signal(SIGCHLD, SIG_DFL);
  int code = 1;
  int output_error = 0;
  try {
    code = rubato::cli::run(argc, argv);
    if (code == 0 && rubato::failure_logged()) code = 1;
  } catch (const std::bad_alloc&) {
    rubato::write_line(stderr,
                       "rubato: there is not enough memory; rubato doctor says how much is free");
  } catch (const std::system_error& error) {
    output_error = std::ferror(stdout) != 0 ? error.code().value() : 0;
    if (output_error == 0) rubato::write_line(stderr, fmt::format("rubato: {}", error.what()));
  } catch (const std::exception& error) {
    rubato::write_line(stderr, fmt::format("rubato: {}", error.what()));
  }
  rubato::end_log();
  return rubato::cli::end_output(code, output_error);
}
