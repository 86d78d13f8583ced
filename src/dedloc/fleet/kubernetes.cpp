// Kubernetes: a stateful set of one pod that hosts, and one of peers, each pod with a volume for
// its identity and state.
//
// A pod whose node is taken away gets the signal of its image (SIGINT or SIGTERM), to which a peer
// leaves in order, and terminationGracePeriodSeconds for it; the set makes another one of the same
// name, with the same volume. Peers need the join string, which the host knows when it runs:
// start.sh fetches it into a secret, for which the peers' pods wait.

#include <fmt/format.h>

#include "dedloc/fleet/fleet_writer.h"
#include "dedloc/fleet/script_words.h"
#include "dedloc/fleet/yaml.h"

namespace dedloc::fleet {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view pod_folder = "/var/lib/dedloc";
constexpr std::string_view given_folder = "/etc/dedloc";  // what the cluster gives to a pod
constexpr int pod_user = 1000;

struct Names {
    std::string run;  // "ours", of which the others are "ours-host", "ours-join", …
    std::string folder;
    std::string with(std::string_view part) const { return fmt::format("{}-{}", run, part); }
};

Names names_of(const Fleet& fleet) {
    return {.run = label_of(fleet.name),
            .folder = fleet.folder.empty() ? std::string(pod_folder) : fleet.folder};
}

json metadata(const Fleet& fleet, const std::string& name) {
    json meta{{"name", name}};
    if (!fleet.name_space.empty()) meta["namespace"] = fleet.name_space;
    meta["labels"] = {{"app.kubernetes.io/name", "dedloc"},
                      {"app.kubernetes.io/instance", names_of(fleet).run}};
    return meta;
}

json object(const Fleet& fleet, const char* version, const char* kind, const std::string& name) {
    return {{"apiVersion", version}, {"kind", kind}, {"metadata", metadata(fleet, name)}};
}

json pod_resources(const Fleet& fleet) {
    json resources{{"requests",
                    {{"cpu", fmt::format("{}", fleet.cpus)},
                     {"memory", fmt::format("{}Gi", fleet.memory_gib)}}},
                   {"limits", {{"memory", fmt::format("{}Gi", fleet.memory_gib)}}}};
    if (fleet.gpus > 0) resources["limits"]["nvidia.com/gpu"] = fmt::format("{}", fleet.gpus);
    return resources;
}

json container(const Fleet& fleet, const std::string& name, const std::string& script) {
    const Names names = names_of(fleet);
    return {{"name", name},
            {"image", fleet.image},
            {"command", {"/bin/sh", "-c"}},
            {"args", {script}},
            {"env",
             {{{"name", "HOME"}, {"value", names.folder}},
              {{"name", "POD"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}}}},
            {"resources", pod_resources(fleet)},
            {"securityContext",
             {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}},
            {"volumeMounts",
             {{{"name", "state"}, {"mountPath", names.folder}},
              {{"name", "given"}, {"mountPath", given_folder}, {"readOnly", true}}}}};
}

// `given`: the volume that is mounted at given_folder.
json pod(const Fleet& fleet, const std::string& set, json container, json given) {
    return {{"metadata", {{"labels", {{"app.kubernetes.io/component", set}}}}},
            {"spec",
             {{"terminationGracePeriodSeconds", fleet.grace_s},
              {"automountServiceAccountToken", false},
              {"securityContext",
               {{"runAsNonRoot", true},
                {"runAsUser", pod_user},
                {"runAsGroup", pod_user},
                {"fsGroup", pod_user},
                {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
              {"containers", json::array({std::move(container)})},
              {"volumes", json::array({std::move(given)})}}}};
}

json stateful_set(const Fleet& fleet, const std::string& name, std::uint64_t count, json pod) {
    json claim{{"accessModes", {"ReadWriteOnce"}},
               {"resources", {{"requests", {{"storage", fmt::format("{}Gi", fleet.volume_gib)}}}}}};
    if (!fleet.storage_class.empty()) claim["storageClassName"] = fleet.storage_class;
    json set = object(fleet, "apps/v1", "StatefulSet", name);
    set["spec"] = {
        {"replicas", count},
        {"serviceName", name},
        {"podManagementPolicy", "Parallel"},
        {"selector", {{"matchLabels", {{"app.kubernetes.io/component", name}}}}},
        {"template", std::move(pod)},
        {"volumeClaimTemplates",
         json::array({{{"metadata", {{"name", "state"}}}, {"spec", std::move(claim)}}})}};
    return set;
}

// A service without an address of its own gives each pod of a set a name in DNS.
json service(const Fleet& fleet, const std::string& name) {
    json service = object(fleet, "v1", "Service", name);
    service["spec"] = {
        {"clusterIP", "None"},
        {"publishNotReadyAddresses", true},
        {"selector", {{"app.kubernetes.io/component", name}}},
        {"ports", json::array({{{"name", "dedloc"}, {"port", fleet.port}, {"protocol", "TCP"}}})}};
    return service;
}

// Each cloud marks its spot nodes with a label; a taint of the same key and value, where there is
// one, keeps other pods off them.
void want_spot_nodes(const Fleet& fleet, json& spec) {
    const std::string key = fleet.spot == "gke"   ? "cloud.google.com/gke-spot"
                            : fleet.spot == "eks" ? "eks.amazonaws.com/capacityType"
                                                  : "kubernetes.azure.com/scalesetpriority";
    const std::string value = fleet.spot == "gke" ? "true" : fleet.spot == "eks" ? "SPOT" : "spot";
    spec["nodeSelector"] = {{key, value}};
    spec["tolerations"] = json::array(
        {{{"key", key}, {"operator", "Equal"}, {"value", value}, {"effect", "NoSchedule"}}});
}

std::string pod_host_script(const Fleet& fleet) {
    const Names names = names_of(fleet);
    std::vector<std::string> words = host_words(fleet, names.folder + "/published");
    words.insert(words.end(),
                 {"--announce", fmt::format("{}:{}", names.with("host"), fleet.port), "--plain"});
    return fmt::format(R"sh(state={}/host
if ls "$state"/checkpoints/*/checkpoint.json >/dev/null 2>&1; then
  exec {} host --resume "$state" {}
fi
exec {} host {}/run.toml --dir "$state" {}
)sh",
                       names.folder,
                       fleet.program,
                       shell_line(words),
                       fleet.program,
                       given_folder,
                       shell_line(words));
}

std::string pod_peer_script(const Fleet& fleet) {
    const Names names = names_of(fleet);
    return fmt::format("exec {} join @{}/join.txt --dir {}/peer --name \"$POD\" --plain {}\n",
                       fleet.program,
                       given_folder,
                       names.folder,
                       shell_line(peer_words(fleet)));
}

std::string host_manifest(const Fleet& fleet) {
    const Names names = names_of(fleet);
    json run_file = object(fleet, "v1", "ConfigMap", names.with("run"));
    run_file["data"] = {{"run.toml", fleet.run_file}};
    const json given{{"name", "given"}, {"configMap", {{"name", names.with("run")}}}};
    const std::string set = names.with("host");
    return to_yaml(std::vector<json>{
        run_file,
        service(fleet, set),
        stateful_set(fleet,
                     set,
                     1,
                     pod(fleet, set, container(fleet, "host", pod_host_script(fleet)), given))});
}

std::string peers_manifest(const Fleet& fleet) {
    const Names names = names_of(fleet);
    const json given{{"name", "given"}, {"secret", {{"secretName", names.with("join")}}}};
    const std::string set = names.with("peer");
    json template_ = pod(fleet, set, container(fleet, "peer", pod_peer_script(fleet)), given);
    if (!fleet.spot.empty()) want_spot_nodes(fleet, template_["spec"]);
    return to_yaml(std::vector<json>{service(fleet, set),
                                     stateful_set(fleet, set, fleet.peers, std::move(template_))});
}

std::string kubernetes_start(const Fleet& fleet) {
    const Names names = names_of(fleet);
    const std::string kubectl =
        fleet.name_space.empty() ? "kubectl" : "kubectl --namespace " + fleet.name_space;
    std::string script = R"sh(#!/usr/bin/env bash
# Begins the fleet; to change one, change the manifests and run this again.
set -euo pipefail
cd "$(dirname "$0")"
umask 077
)sh";
    if (fleet.hosts())
        script += fmt::format(R"sh({0} apply -f host.yaml
for try in $(seq 1 60); do
    if {0} exec {1}-0 -- cat {2}/host/join.txt >join.txt 2>/dev/null && [[ -s join.txt ]]; then
        break
    fi
    [[ $try -lt 60 ]] || {{ echo "the host gave no join string: {0} logs {1}-0" >&2; exit 1; }}
    sleep "${{FLEET_WAIT_S:-5}}"
done
)sh",
                              kubectl,
                              names.with("host"),
                              names.folder);
    return script + fmt::format(R"sh({0} create secret generic {1} --from-file=join.txt \
    --dry-run=client -o yaml | {0} apply -f -
{0} apply -f peers.yaml
)sh",
                                kubectl,
                                names.with("join"));
}

}  // namespace

Result<std::vector<FleetText>> write_kubernetes(const Fleet& fleet) {
    using enum FleetText::Access;
    std::vector<FleetText> texts{{"peers.yaml", peers_manifest(fleet), anybody},
                                 {"start.sh", kubernetes_start(fleet), runs}};
    if (fleet.hosts()) texts.push_back({"host.yaml", host_manifest(fleet), anybody});
    return texts;
}

}  // namespace dedloc::fleet
