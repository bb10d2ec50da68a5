#include "cli/compose/kubernetes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/quote.hpp"
#include "base/utf8.hpp"
#include "cli/compose/compose_file.hpp"
#include "cli/compose/yaml.hpp"

namespace rubato::cli {
namespace {

using proto::Role;

Result<void> check_names(const Containers& all) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  for (const auto& node : all.nodes)
    if (!std::ranges::all_of(node.name, fits) || node.name.front() == '-' ||
        node.name.back() == '-' || node.name == "server")
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: no pod can be called {}; Kubernetes takes lower-case letters, "
                              "digits, and - between them, and `server` is a service",
                              all.options.file, node.name));
  return {};
}

std::string file_name(const ClusterText& each) {
  return std::filesystem::path(each.file.inside).filename().string();
}

std::string cluster_config_map(const Containers& all) {
  std::string text =
      "apiVersion: v1\n"
      "kind: ConfigMap\n"
      "metadata: {name: cluster}\n"
      "data:\n";
  for (const auto& each : all.texts)
    text += fmt::format("  {}: {}", yaml_text(file_name(each)), block(each.text, 4));
  return text;
}

std::string service(const char* name, int port) {
  return fmt::format(
      "---\n"
      "apiVersion: v1\n"
      "kind: Service\n"
      "metadata: {{name: {0}}}\n"
      "spec:\n"
      "  clusterIP: None\n"
      "  publishNotReadyAddresses: true\n"
      "  selector: {{rubato: {0}}}\n"
      "  ports: [{{port: {1}}}]\n",
      name, port);
}

constexpr const char* kNetworkPolicy = R"(---
# Only the nodes of this namespace reach each other.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: cluster}
spec:
  podSelector: {matchExpressions: [{key: rubato, operator: Exists}]}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchExpressions: [{key: rubato, operator: Exists}]}}]
)";

// The keys that a pod of the role is given: its own, and those that it allows.
std::string given_keys(const Containers& all, Role role, const std::string& name) {
  std::string secret, allowed;
  for (const auto& node : all.nodes) {
    if (node.role == role && (role == Role::Server || node.name == name))
      secret += fmt::format("              - {{key: {0}.key, path: {0}.key}}\n", node.name);
    if (allowed_at(node.role, role))
      allowed += fmt::format("              - {{key: {0}.pub, path: authorized_keys/{0}.pub}}\n",
                             node.name);
  }
  return fmt::format(
      "    - name: given-keys\n"
      "      projected:\n"
      "        sources:\n"
      "          - secret:\n"
      "              name: keys\n"
      "              items:\n"
      "{}"
      "          - configMap:\n"
      "              name: public-keys\n"
      "              items:\n"
      "              - {{key: scheduler.pub, path: scheduler.pub}}\n"
      "{}",
      secret, allowed);
}

// The first container copies the keys, since what Kubernetes gives can be read by a group.
constexpr const char* kCopyKeys =
    "cp -L \"/given/$NODE.key\" /given/scheduler.pub /keys/ && chmod 600 \"/keys/$NODE.key\" && "
    "if [ -d /given/authorized_keys ]; then cp -rL /given/authorized_keys /keys/; fi";

// Unless told otherwise, Kubernetes sets aside what the limit is. No memory needs to be set aside.
std::string resources(const Container& node) {
  if (node.cpus <= 0 && node.memory_mib <= 0) return {};
  std::string text = "      resources:\n";
  if (node.memory_mib > 0) text += "        requests: {memory: 64Mi}\n";
  text += "        limits:\n";
  if (node.cpus > 0) text += fmt::format("          cpu: \"{}\"\n", node.cpus);
  if (node.memory_mib > 0) text += fmt::format("          memory: {}Mi\n", node.memory_mib);
  return text;
}

struct Pod {
  const Container& node;
  std::string label;    // what services look for
  const char* restart;  // policy
  std::string volume;   // for what is kept: the end of a volume, or empty where a claim has it
};

// The pod's template, as a part of spec.
std::string pod(const Containers& all, const Pod& pod) {
  const Container& node = pod.node;
  auto words = node.arguments;
  for (auto& word : words) {
    word = without_variables(word);
    if (node.role != Role::Server) continue;
    if (word == node.name) word = "$(NODE)";
    if (word == fmt::format("tcp://{}:{}", node.name, kServerPort))
      word = fmt::format("tcp://$(NODE).server:{}", kServerPort);
  }
  const std::string who = node.role == Role::Server
                              ? "valueFrom: {fieldRef: {fieldPath: metadata.name}}"
                              : fmt::format("value: {}", yaml_text(node.name));
  std::string spec = fmt::format(
      "metadata: {{labels: {{rubato: {}}}}}\n"
      "spec:\n"
      "  restartPolicy: {}\n"
      "  automountServiceAccountToken: false\n"
      "  securityContext: {{runAsNonRoot: true, runAsUser: {}, runAsGroup: {}, fsGroup: {}}}\n",
      pod.label, pod.restart, kImageUser, kImageUser, kImageUser);
  const auto container = [&](const char* name, const std::string& rest) {
    return fmt::format(
        "    - name: {}\n"
        "      image: {}\n"
        "      env: [{{name: NODE, {}}}]\n"
        "      securityContext:\n"
        "        allowPrivilegeEscalation: false\n"
        "        capabilities: {{drop: [ALL]}}\n"
        "{}",
        name, yaml_text(all.options.image), who, rest);
  };
  spec += "  initContainers:\n" +
          container("keys", fmt::format("      command: {}\n"
                                        "      volumeMounts:\n"
                                        "        - {{name: given-keys, mountPath: /given}}\n"
                                        "        - {{name: keys, mountPath: /keys}}\n",
                                        flow_list({"sh", "-ec", kCopyKeys}, 8)));
  spec += "  containers:\n" +
          container("rubato",
                    fmt::format("      args: {}\n"
                                "{}"
                                "      livenessProbe:\n"
                                "        exec: {{command: [rubato-health]}}\n"
                                "        initialDelaySeconds: 120\n"
                                "        periodSeconds: 10\n"
                                "        timeoutSeconds: 10\n"
                                "        failureThreshold: 6\n"
                                "      volumeMounts:\n"
                                "        - {{name: cluster, mountPath: /cluster, readOnly: true}}\n"
                                "        - {{name: keys, mountPath: /keys, readOnly: true}}\n"
                                "        - {{name: data, mountPath: /var/lib/rubato}}\n",
                                flow_list(words, 8), resources(node)));
  spec +=
      "  volumes:\n    - {name: cluster, configMap: {name: cluster}}\n"
      "    - {name: keys, emptyDir: {medium: Memory}}\n" +
      given_keys(all, node.role, node.name);
  if (!pod.volume.empty()) spec += fmt::format("    - {{name: data, {}}}\n", pod.volume);
  return fmt::format("  template:\n{}", indented(spec, 4));
}

constexpr const char* kClaim =
    "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}";

std::string scheduler_job(const Containers& all, const Container& node) {
  return fmt::format(
             "---\n"
             "apiVersion: v1\n"
             "kind: PersistentVolumeClaim\n"
             "metadata: {{name: results}}\n"
             "spec: {{{}}}\n"
             "---\n"
             "# It ends with the run, and begins again where it was if it fails.\n"
             "apiVersion: batch/v1\n"
             "kind: Job\n"
             "metadata: {{name: scheduler}}\n"
             "spec:\n"
             "  backoffLimit: 100\n",
             kClaim) +
         pod(all, {node, "scheduler", "OnFailure", "persistentVolumeClaim: {claimName: results}"});
}

std::string server_set(const Containers& all, const Container& first, std::ptrdiff_t count) {
  return fmt::format(
             "---\n"
             "apiVersion: apps/v1\n"
             "kind: StatefulSet\n"
             "metadata: {{name: server}}\n"
             "spec:\n"
             "  serviceName: server\n"
             "  replicas: {}\n"
             "  podManagementPolicy: Parallel\n"
             "  selector: {{matchLabels: {{rubato: server}}}}\n"
             "  volumeClaimTemplates:\n"
             "    - metadata: {{name: data}}\n"
             "      spec: {{{}}}\n",
             count, kClaim) +
         pod(all, {first, "server", "Always", ""});
}

std::string worker_deployment(const Containers& all, const Container& node) {
  return fmt::format(
             "---\n"
             "apiVersion: apps/v1\n"
             "kind: Deployment\n"
             "metadata: {{name: {0}}}\n"
             "spec:\n"
             "  replicas: 1\n"
             "  strategy: {{type: Recreate}}\n"
             "  selector: {{matchLabels: {{rubato: {0}}}}}\n",
             yaml_word(node.name)) +
         pod(all, {node, yaml_word(node.name), "Always", "emptyDir: {}"});
}

}  // namespace

Result<std::string> kubernetes_yaml(const Containers& all) {
  RUBATO_TRY(check_files_in_image(all, "Kubernetes"));
  RUBATO_TRY(check_names(all));
  std::string text = fmt::format(
                         "# Made by `rubato compose --kubernetes {}`. One namespace has one "
                         "cluster; docs/containers.md\n# has the steps.\n",
                         printable(shell_word(all.options.file))) +
                     cluster_config_map(all) + service("scheduler", kSchedulerPort) +
                     service("server", kServerPort) + kNetworkPolicy;
  const auto servers =
      std::ranges::count(all.nodes, Role::Server, [](const Container& node) { return node.role; });
  for (const auto& node : all.nodes)
    if (node.role == Role::Scheduler)
      text += scheduler_job(all, node);
    else if (node.role == Role::Worker)
      text += worker_deployment(all, node);
    else if (&node == &all.nodes[1])  // the first server stands for all
      text += server_set(all, node, servers);
  return text;
}

}  // namespace rubato::cli
