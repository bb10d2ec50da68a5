#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"
#include "cli/cluster_host.hpp"
#include "cli/commands.hpp"
#include "cli/interrupt.hpp"
#include "cli/outputs.hpp"
#include "cli/profile.hpp"
#include "cli/real_cluster.hpp"
#include "cli/run_file.hpp"
#include "cli/run_place.hpp"
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
  RUBATO_TRY(check_real(config, "rubato up"));
  if (options.seed) config.seed = *options.seed;
  options.seed = config.seed;
  set_log_quiet(options.quiet);
  RUBATO_TRY(sync::find_model(options.sync));
  RUBATO_TRY(interruptible(stop, [&] { return check_links(config, options.throttle); }));
  const std::string note = unshaped_note(config, options.throttle);
  if (!note.empty()) log_info(note);
  const std::string command =
      resumes ? fmt::format("rubato up --resume {}", options.place.out)
              : fmt::format("rubato up {} --sync {}{}{}", options.file, options.sync,
                            options.throttle.on ? " --throttle" : "",
                            options.throttle.kernel ? " --kernel" : "");
  RUBATO_ASSIGN(const auto place, resumes ? RunPlace::again(options.place.out)
                                          : RunPlace::make(options.place, config.name, command));
  const std::string& out = place.directory();
  Comparison shown = start_comparison(config, {options.sync}, command, false);
  shown.note = note;
  RUBATO_ASSIGN(const auto page,
                open_live_page(options.http, std::move(shown), options.sync, config.seed,
                               options.throttle.on ? link_texts(config)
                                                   : std::map<std::string, std::string>()));
  RUBATO_ASSIGN(const auto profile, ClusterProfile::open(options.profile));
  if (!resumes) RUBATO_TRY(write_run_file(out, options));
  const RealRun run{.sync = options.sync,
                    .out = out,
                    .resumes = resumes,
                    .quiet = options.quiet,
                    .throttle = options.throttle,
                    .profile = *profile,
                    .page = page.get()};
  RUBATO_ASSIGN(auto hosted, run_real(config, run, stop));
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
  const auto done = up_checked(options, stop);
  return done ? 0 : report_error(done.error());
}

}  // namespace rubato::cli
