#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"
#include "base/quote.hpp"
#include "cli/commands.hpp"
#include "cli/hosted_run.hpp"
#include "cli/interrupt.hpp"
#include "cli/run_file.hpp"
#include "cli/run_place.hpp"
#include "nodes/loop_command.hpp"
#include "nodes/profile.hpp"
#include "nodes/real_cluster.hpp"
#include "report/outputs.hpp"
#include "sync/factory.hpp"

namespace rubato::cli {
namespace {

Result<void> up_checked(UpOptions options, std::stop_token stop) {
  const bool resumes = !options.resume.empty();
  if (resumes) {
    RUBATO_ASSIGN(options, resumed(std::move(options)));
  } else if (options.file.empty()) {
    return fail(ErrorCode::BadInput,
                "up needs a cluster file, or --resume DIR of an earlier run; see rubato up --help");
  }
  RUBATO_ASSIGN(auto config, cluster::load_cluster(options.file));
  if (options.target_loss) config.stop.target_loss = options.target_loss;
  RUBATO_TRY(nodes::use_loop(config, options.module, options.loop));
  RUBATO_TRY(nodes::check_real(config, "rubato up"));
  if (options.seed) config.seed = *options.seed;
  options.seed = config.seed;
  set_log_quiet(options.quiet);
  options.sync = config.sync_or(options.sync);
  RUBATO_TRY(sync::find_model(options.sync));
  RUBATO_TRY(nodes::interruptible(process_stop(stop),
                                  [&] { return nodes::check_links(config, options.throttle); }));
  const std::string note = nodes::unshaped_note(config, options.throttle);
  if (!note.empty()) log_info(note);
  const std::string command =
      resumes ? fmt::format("rubato up --resume {}", shell_word(options.place.out))
              : fmt::format("rubato up {} --sync {}{}{}", shell_word(options.file), options.sync,
                            options.throttle.on ? " --throttle" : "",
                            options.throttle.kernel ? " --kernel" : "");
  RUBATO_ASSIGN(const auto place, resumes ? RunPlace::again(options.place.out)
                                          : RunPlace::make(options.place, config.name, command));
  const std::string& out = place.directory();
  report::Comparison shown = report::start_comparison(config, {options.sync}, command, false);
  shown.note = note;
  RUBATO_ASSIGN(const auto page,
                report::open_live_page(options.http, std::move(shown), options.sync, config.seed,
                                       options.throttle.on ? report::link_texts(config)
                                                           : std::map<std::string, std::string>()));
  RUBATO_ASSIGN(const auto profile, nodes::ClusterProfile::open(options.profile));
  if (!resumes) RUBATO_TRY(write_run_file(out, options));
  ShownRun watched(config, {.sync = options.sync, .quiet = options.quiet, .page = page.get()});
  nodes::Watch watch = watched.watch();
  watch.on_data = [warn = watch.on_data, &out](const cluster::DataFacts& data) {
    warn(data);
    note_data(out, data);
  };
  const nodes::RealRun run{.sync = options.sync,
                           .out = out,
                           .resumes = resumes,
                           .throttle = options.throttle,
                           .profile = *profile,
                           .watch = watch,
                           .curves = nodes::curves_directory(config, out)};
  const InOrder in_order;
  RUBATO_ASSIGN(auto hosted, nodes::run_real(config, run, process_stop(stop)));
  return conclude(config, std::move(hosted),
                  {.command = command,
                   .out = out,
                   .json = options.json,
                   .missed_ok = options.missed_ok,
                   .note = note,
                   .page = page.get()},
                  stop);
}

}  // namespace

int up(const UpOptions& options, std::stop_token stop) {
  return exit_code(up_checked(options, stop));
}

}  // namespace rubato::cli
