#include "provider.hpp"

#include <map>

namespace nnvk::provider {

namespace {

struct Provider : Ep {
  std::string name;
  Options options;
  const Logger* logger = nullptr;
};

struct FusedNode : ComputeInfo {
  std::unique_ptr<Part> part;
};

enum Severity : int32_t { kInfo = 1, kWarning = 2 };

void log(const Provider& provider, Severity severity, const std::string& line) {
  check(Logger_LogMessage(api, provider.logger, severity, ("nnvk: " + line).c_str(), __FILE__, __LINE__, __func__));
}

std::string described(const Node* node) {
  return std::string(TEXT(Node_GetOperatorType, node)) + " '" + TEXT(Node_GetName, node) + "'";
}

bool isNested(const Graph* graph) {
  const Node* parent = nullptr;
  check(Graph_GetParentNode(api, graph, &parent));
  return parent != nullptr;
}

void choose(const Provider& provider, const Graph* graph, SupportInfo* info) {
  const auto nodes = nodesOf(graph);
  if (nodes.empty() || isNested(graph)) {  // its parent is taken as a whole, or not at all
    return;
  }
  auto verdicts = examine(provider.options, graph, nodes.size());
  std::map<int32_t, std::vector<const Node*>> parts;
  for (size_t at = 0; at < nodes.size(); ++at) {
    if (verdicts[at].part >= 0) {
      parts[verdicts[at].part].push_back(nodes[at]);
    } else {
      log(provider, kInfo, described(nodes[at]) + " stays with onnxruntime: " + verdicts[at].reason);
    }
  }
  // Before 1.27 a fused node does not get what graphs in it read of those around them.
  size_t taken = 0, count = 0;
  const FusionOptions options{kVersion, true};
  for (const auto& [number, part] : parts) {
    bool is_whole = true;
    for (const auto* node : part) {
      if (running < 27 && !implicitOf(node).empty()) {
        log(provider, kInfo, described(node) + " and its part stay with onnxruntime: before 1.27 a part can't have it");
        is_whole = false;
        break;
      }
    }
    if (is_whole) {
      check(EpGraphSupportInfo_AddNodesToFuse(ep_api, info, part.data(), part.size(), &options));
      taken += part.size();
      ++count;
    }
  }
  log(provider, kInfo,
      std::to_string(taken) + " of " + std::to_string(nodes.size()) + " nodes in " + std::to_string(count) +
          (count == 1 ? " part" : " parts"));
}

// An error here would leave all nodes to the CPU, with one line of the log: a warning has the reason.
Status* getCapability(Ep* base, const Graph* graph, SupportInfo* info) {
  const auto& provider = *static_cast<const Provider*>(base);
  Status* status = safely("choosing nodes", [&] { choose(provider, graph, info); });
  if (status == nullptr) {
    return nullptr;
  }
  const std::string reason = GetErrorMessage(api, status);
  ReleaseStatus(api, status);
  return safely("choosing nodes", [&] { log(provider, kWarning, "no node of this graph runs on nnvk: " + reason); });
}

Status* createState(ComputeInfo* info, ComputeContext*, void** state) {
  *state = info;
  return nullptr;
}

void releaseState(ComputeInfo*, void*) {}

Status* compute(ComputeInfo* info, void*, KernelContext* context) {
  return safely("computing", [&] { static_cast<FusedNode*>(info)->part->compute(context); });
}

void releaseInfos(Ep*, ComputeInfo** infos, size_t count) {
  for (size_t at = 0; at < count; ++at) {
    delete static_cast<FusedNode*>(infos[at]);
  }
}

Status* compile(Ep* base, const Graph** graphs, const Node** fused, size_t count, ComputeInfo** infos, Node**) {
  const auto& provider = *static_cast<const Provider*>(base);
  std::vector<std::unique_ptr<FusedNode>> made;  // after an error onnxruntime frees none
  return safely("compiling", [&] {
    for (size_t at = 0; at < count; ++at) {
      auto node = std::make_unique<FusedNode>();
      static_cast<ComputeInfo&>(*node) = {kVersion, createState, compute, releaseState};
      node->part = std::make_unique<Part>(provider.options, graphs[at], fused[at]);
      made.push_back(std::move(node));
    }
    for (size_t at = 0; at < count; ++at) {
      infos[at] = made[at].release();
    }
  });
}

}  // namespace

Ep* newProvider(const std::string& name, const Options& options, const Logger* logger) {
  auto provider = std::make_unique<Provider>();
  static_cast<Ep&>(*provider) = {};
  provider->ort_version_supported = kVersion;
  provider->GetName = [](const Ep* own) { return static_cast<const Provider*>(own)->name.c_str(); };
  provider->GetCapability = getCapability;
  provider->Compile = compile;
  provider->ReleaseNodeComputeInfos = releaseInfos;
  provider->name = name;
  provider->options = options;
  provider->logger = logger;
  return provider.release();
}

void freeProvider(Ep* provider) noexcept { delete static_cast<Provider*>(provider); }

}  // namespace nnvk::provider
