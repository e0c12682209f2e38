#include "provider.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "context.hpp"

namespace nnvk::provider {

namespace {

// Why a node stays with onnxruntime.
struct Stay {
  std::string domain, type, name, reason;
};

struct Provider : Ep {
  std::string name;
  Options options;
  const Logger* logger = nullptr;
  std::mutex mutex;  // of what follows
  std::vector<Stay> stays;
  bool is_chosen = false;  // for the outermost graph, which comes after those in it
  size_t saved = 0;  // parts
  std::unique_ptr<Object> recording;
  std::string compatibility;
};

struct FusedNode : ComputeInfo {
  const Ep* provider = nullptr;
  std::unique_ptr<Part> part;
};

enum Severity : int32_t { kInfo = 1, kWarning = 2 };

void log(const Provider& provider, Severity severity, const std::string& line) {
  check(Logger_LogMessage(api, provider.logger, severity, ("nnvk: " + line).c_str(), __FILE__, __LINE__, __func__));
}

std::string described(const Node* node) {
  return std::string(TEXT(Node_GetOperatorType, node)) + " '" + TEXT(Node_GetName, node) + "'";
}

// Remembers a node that stays, and writes a line of the log.
void stay(Provider& provider, const Node* node, const std::string& reason) {
  log(provider, kInfo, described(node) + " stays with onnxruntime: " + reason);
  const std::lock_guard lock(provider.mutex);
  provider.stays.push_back({TEXT(Node_GetDomain, node), TEXT(Node_GetOperatorType, node), TEXT(Node_GetName, node), reason});
}

// The node whose graph a graph is; NULL: it is the outermost graph.
const Node* parentOf(const Graph* graph) {
  const Node* parent = nullptr;
  check(Graph_GetParentNode(api, graph, &parent));
  return parent;
}

// onnxruntime asks again after it has changed the graph.
void begin(Provider& provider, bool is_outermost) {
  const std::lock_guard lock(provider.mutex);
  if (provider.is_chosen) {
    provider.stays.clear();
  }
  provider.is_chosen = is_outermost;
}

constexpr FusionOptions kFusion{kVersion, true};

// Takes the nodes that stand for saved parts. False: there are none.
bool chooseContexts(Provider& provider, const std::vector<const Node*>& nodes, SupportInfo* info) {
  if (std::none_of(nodes.begin(), nodes.end(), isContext)) {
    return false;
  }
  for (const auto* node : nodes) {
    if (isContext(node)) {
      check(EpGraphSupportInfo_AddNodesToFuse(ep_api, info, &node, size_t{1}, &kFusion));
    } else {
      stay(provider, node, "the model is compiled: nnvk runs its saved parts alone");
    }
  }
  return true;
}

// The inputs and outputs that the node in the place of a part will have.
std::vector<const ValueInfo*> edgesOf(const std::vector<const Node*>& part, const Graph* graph) {
  const auto add = [](std::set<std::string>& names, const std::vector<const ValueInfo*>& values) {
    for (const auto* value : values) {
      names.insert(nameOf(value));
    }
  };
  std::set<std::string> made, wanted;
  const std::set<const Node*> inside(part.begin(), part.end());
  add(wanted, outputsOf(graph));
  for (const auto* node : nodesOf(graph)) {
    if (inside.count(node) > 0) {
      add(made, outputsOf(node));
    } else {
      add(wanted, readBy(node));
    }
  }
  std::vector<const ValueInfo*> edges;
  for (const auto* node : part) {
    for (const auto* value : readBy(node)) {
      if (*nameOf(value) != '\0' && made.count(nameOf(value)) == 0 && constant(value) == nullptr) {
        edges.push_back(value);
      }
    }
    for (const auto* value : outputsOf(node)) {
      if (*nameOf(value) != '\0' && wanted.count(nameOf(value)) > 0) {
        edges.push_back(value);
      }
    }
  }
  return edges;
}

// Why a part that could be compiled stays; empty: it goes.
std::string whyPartStays(const Options& options, const std::vector<const Node*>& part, const Graph* graph) {
  // Before 1.27 a fused node does not get what graphs in it read of those around them.
  const auto reads_around = [](const Node* node) { return running < 27 && !implicitOf(node).empty(); };
  const auto found = std::find_if(part.begin(), part.end(), reads_around);
  if (found != part.end()) {
    return "before onnxruntime 1.27 a part can't have " + described(*found);
  }
  return options.saves ? whyNotSaved(edgesOf(part, graph)) : "";
}

void choose(Provider& provider, const Graph* graph, SupportInfo* info) {
  const auto nodes = nodesOf(graph);
  const Node* parent = parentOf(graph);
  begin(provider, parent == nullptr);
  if (parent != nullptr) {  // it is taken as a whole, or not at all
    for (const auto* node : nodes) {
      stay(provider, node, "the node around it, " + described(parent) + ", is taken as a whole or stays");
    }
    return;
  }
  if (nodes.empty() || chooseContexts(provider, nodes, info)) {
    return;
  }
  auto verdicts = examine(provider.options, graph, nodes.size());
  std::map<int32_t, std::vector<const Node*>> parts;
  for (size_t at = 0; at < nodes.size(); ++at) {
    if (verdicts[at].part >= 0) {
      parts[verdicts[at].part].push_back(nodes[at]);
    } else {
      stay(provider, nodes[at], verdicts[at].reason);
    }
  }
  size_t taken = 0, count = 0;
  for (const auto& [number, part] : parts) {
    const auto reason = whyPartStays(provider.options, part, graph);
    if (!reason.empty()) {
      if (provider.options.saves) {
        log(provider, kWarning, "a part with " + described(part.front()) + " is not compiled in the model: " + reason);
      }
      for (const auto* node : part) {
        stay(provider, node, reason);
      }
    } else {
      check(EpGraphSupportInfo_AddNodesToFuse(ep_api, info, part.data(), part.size(), &kFusion));
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
  auto& provider = *static_cast<Provider*>(base);
  Status* status = safely("choosing nodes", [&] { choose(provider, graph, info); });
  if (status == nullptr) {
    return nullptr;
  }
  const std::string reason = GetErrorMessage(api, status);
  ReleaseStatus(api, status);
  return safely("choosing nodes", [&] {
    log(provider, kWarning, "no node of this graph runs on nnvk: " + reason);
    for (const auto* node : nodesOf(graph)) {
      stay(provider, node, reason);
    }
  });
}

// The key of a session's dynamic options whose value is a descriptor. The nodes that stay are written there: domain,
// operator, name and reason of each, with a zero byte behind each. onnxruntime gives a program no other way to a
// session's provider.
constexpr char kReasons[] = "nnvk.reasons";

void writeStays(Provider& provider, int file) {
  const std::lock_guard lock(provider.mutex);
  std::string text;
  for (const auto& one : provider.stays) {
    for (const auto* field : {&one.domain, &one.type, &one.name, &one.reason}) {
      text.append(field->c_str(), field->size() + 1);
    }
  }
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(file, &text[at], text.size() - at);
    if (written < 0 && errno != EINTR) {
      failSystem("the reasons can't be written", errno);
    }
    at += static_cast<size_t>(std::max<ssize_t>(written, 0));
  }
}

Status* setDynamicOptions(Ep* base, const char* const* keys, const char* const* values, size_t count) {
  return safely("setting dynamic options", [&] {
    for (size_t at = 0; at < count; ++at) {
      if (strcmp(keys[at], kReasons) == 0) {
        writeStays(*static_cast<Provider*>(base), atoi(values[at]));
      }
    }
  });
}

Status* createState(ComputeInfo* info, ComputeContext*, void** state) {
  *state = info;
  return nullptr;
}

void releaseState(ComputeInfo*, void*) {}

Status* compute(ComputeInfo* info, void*, KernelContext* context) {
  const auto& node = *static_cast<FusedNode*>(info);
  return safely("computing", [&] {
    Termination termination(currentRun(node.provider));
    node.part->compute(context, termination);
  });
}

void releaseInfos(Ep*, ComputeInfo** infos, size_t count) {
  for (size_t at = 0; at < count; ++at) {
    delete static_cast<FusedNode*>(infos[at]);
  }
}

// A part to run. In its place a node with the saved part is put into the model that onnxruntime writes, if it does.
std::unique_ptr<Part> newPart(Provider& provider, const Graph* graph, const Node* fused, Node** context) {
  const Options& options = provider.options;
  const auto nodes = nodesOf(graph);
  if (nodes.size() == 1 && isContext(nodes.front())) {
    if (options.saves) {
      NNVK_BAD_DATA("ep.context_enable is 1, but the model is compiled already");
    }
    return std::make_unique<Part>(options, readContext(options, graph, nodes.front()), nodes.front(), fused);
  }
  if (!options.saves) {
    return std::make_unique<Part>(options, graph, fused);
  }
  const auto saved = save(options, graph, fused);
  auto part = std::make_unique<Part>(options, saved, fused, fused);
  *context = newContext(options, graph, fused, saved, provider.saved++);
  return part;
}

Status* compile(Ep* base, const Graph** graphs, const Node** fused, size_t count, ComputeInfo** infos,
                Node** contexts) {
  auto& provider = *static_cast<Provider*>(base);
  std::vector<std::unique_ptr<FusedNode>> made;  // after an error onnxruntime frees none
  return safely("compiling", [&] {
    for (size_t at = 0; at < count; ++at) {
      auto node = std::make_unique<FusedNode>();
      static_cast<ComputeInfo&>(*node) = {kVersion, createState, compute, releaseState};
      node->provider = base;
      node->part = newPart(provider, graphs[at], fused[at], contexts + at);
      made.push_back(std::move(node));
    }
    for (size_t at = 0; at < count; ++at) {
      infos[at] = made[at].release();
    }
  });
}

const char* compatibilityInfo(Ep* base, const Graph*) {
  auto& provider = *static_cast<Provider*>(base);
  Status* status = safely("describing the compiled model", [&] {
    provider.compatibility = compatibility(provider.options.device);
  });
  if (status != nullptr) {  // there is no way to tell it
    ReleaseStatus(api, status);
  }
  return provider.compatibility.c_str();
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
  provider->SetDynamicOptions = setDynamicOptions;
  provider->OnRunStart = [](Ep* own, const RunOptions* options) {
    return safely("beginning a run", [&] { beginRun(own, options); });
  };
  provider->OnRunEnd = [](Ep* own, const RunOptions*, bool) -> Status* {
    endRun(own);
    return nullptr;
  };
  provider->GetCompiledModelCompatibilityInfo = compatibilityInfo;
  provider->name = name;
  provider->options = options;
  provider->logger = logger;
  if (!options.profile.empty()) {
    const auto server = Server::running();
    const uint64_t number = server->newNumber();
    Request request(kRequestOnnxProfile, server);
    request.put(number);
    request.put(options.profile.c_str());
    request.askAll();
    provider->recording = std::make_unique<Object>(server, number);
  }
  return provider.release();
}

void freeProvider(Ep* base) noexcept {
  const std::unique_ptr<Provider> provider(static_cast<Provider*>(base));
  if (provider->recording != nullptr) {
    guarded("the end of a session's profile", [&] {  // which logs an error: there is nobody to throw it to
      Request request(kRequestOnnxProfileEnd, provider->recording->server);
      request.put(*provider->recording);
      request.askAll();
    });
  }
}

}  // namespace nnvk::provider
