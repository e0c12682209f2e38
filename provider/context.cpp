#include "context.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>

#include "devices.hpp"

namespace nnvk::provider {

namespace {

using std::filesystem::path;

constexpr char kType[] = "EPContext", kDomain[] = "com.microsoft", kSource[] = "nnvk";
constexpr char kContent[] = "ep_cache_context", kEmbedded[] = "embed_mode";
enum AttributeType : int32_t { kInt = 1, kString = 5 };

// The bytes of an attribute; empty where the node has none of the name and type.
std::string bytesOf(const Node* node, const char* name, AttributeType wanted) {
  for (const auto* attribute : attributesOf(node)) {
    int32_t type = 0;
    check(OpAttr_GetType(api, attribute, &type));
    if (type != wanted || strcmp(TEXT(OpAttr_GetName, attribute), name) != 0) {
      continue;
    }
    size_t size = 0;
    if (Status* status = ReadOpAttr(api, attribute, type, static_cast<void*>(nullptr), size_t{0}, &size)) {
      ReleaseStatus(api, status);  // it has given the size
    }
    std::string data(size, '\0');
    if (size > 0) {
      check(ReadOpAttr(api, attribute, type, static_cast<void*>(data.data()), size, &size));
    }
    return data;
  }
  return "";
}

// The path of the model with the nodes: the option of the session, else that of the model, which may be empty.
path modelPath(const Options& options, const Graph* graph) {
  return options.context_path.empty() ? path(TEXT(Graph_GetModelPath, graph)) : path(options.context_path);
}

std::string readFile(const path& name) {
  const Descriptor file(open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // a pipe would wait for a writer
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) {
    failSystem(("the saved part " + name.string() + " can't be read").c_str(), errno, ANEURALNETWORKS_BAD_DATA);
  }
  if (!S_ISREG(status.st_mode)) {
    NNVK_BAD_DATA("the saved part %s is no regular file", name.c_str());
  }
  std::string data(static_cast<size_t>(status.st_size), '\0');
  size_t read = 0;
  while (read < data.size()) {
    const ssize_t size = ::read(file.get(), &data[read], data.size() - read);
    if (size == 0) {
      break;  // somebody has cut it off, which its digest tells
    }
    if (size < 0 && errno != EINTR) {
      failSystem(("the saved part " + name.string() + " can't be read").c_str(), errno);
    }
    read += static_cast<size_t>(std::max<ssize_t>(size, 0));
  }
  data.resize(read);
  return data;
}

// Puts a file in its place when all of it is written.
void writeFile(const path& name, const std::string& data) {
  const path made = name.string() + "." + std::to_string(getpid()) + ".tmp";
  Descriptor file(open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  bool is_written = static_cast<bool>(file);
  for (size_t at = 0; is_written && at < data.size();) {
    const ssize_t size = ::write(file.get(), &data[at], data.size() - at);
    is_written = size >= 0 || errno == EINTR;
    at += static_cast<size_t>(std::max<ssize_t>(size, 0));
  }
  if (!is_written || rename(made.c_str(), name.c_str()) != 0) {
    const int error = errno;
    unlink(made.c_str());
    failSystem(("the saved part " + name.string() + " can't be written").c_str(), error);
  }
}

// The attributes of a new node, which copies them.
class Attributes {
 public:
  ~Attributes() {
    for (auto* one : made_) {
      ReleaseOpAttr(api, one);
    }
  }
  void add(const char* name, const std::string& text) { add(name, text.data(), text.size(), kString); }
  void add(const char* name, int64_t number) { add(name, &number, 1, kInt); }
  std::vector<OpAttr*>& all() { return made_; }

 private:
  void add(const char* name, const void* data, size_t size, AttributeType type) {
    OpAttr* made = nullptr;
    check(CreateOpAttr(api, name, data, static_cast<int>(size), static_cast<int32_t>(type), &made));
    made_.push_back(made);
  }
  std::vector<OpAttr*> made_;
};

std::vector<const char*> pointersTo(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const auto& text : texts) {
    pointers.push_back(text.c_str());
  }
  return pointers;
}

}  // namespace

std::string whyNotSaved(const std::vector<const ValueInfo*>& edges) {
  constexpr int32_t kLast = 16;  // BFLOAT16
  for (const auto* edge : edges) {
    const TensorInfo* info = tensorInfoOf(edge);
    const int32_t element = info == nullptr ? 0 : typeOf(info).element;
    if (element > kLast) {
      return "onnxruntime's EPContext nodes have no elements of ONNX's type " + std::to_string(element) + ", which '" +
             nameOf(edge) + "' has";
    }
  }
  return "";
}

bool isContext(const Node* node) {
  return strcmp(TEXT(Node_GetOperatorType, node), kType) == 0 && strcmp(TEXT(Node_GetDomain, node), kDomain) == 0 &&
         strcmp(bytesOf(node, "source", kString).c_str(), kSource) == 0;
}

std::string readContext(const Options& options, const Graph* graph, const Node* node) {
  const auto content = bytesOf(node, kContent, kString);
  int64_t is_embedded = 1;
  const auto number = bytesOf(node, kEmbedded, kInt);
  if (number.size() == sizeof is_embedded) {
    memcpy(&is_embedded, number.data(), sizeof is_embedded);
  }
  if (is_embedded != 0) {
    return content;
  }
  const path name = content.c_str();  // without the zero byte that may come along
  const bool is_inside = name.is_relative() && std::find(name.begin(), name.end(), "..") == name.end();
  if (name.empty() || !is_inside) {
    NNVK_BAD_DATA("the file of a saved part must be in the folder of the model, got '%s'", name.c_str());
  }
  const path model = modelPath(options, graph);
  if (model.empty()) {
    NNVK_BAD_DATA("the saved part %s is beside the model, whose path is not known: ep.context_file_path tells it",
                  name.c_str());
  }
  return readFile(model.parent_path() / name);
}

Node* newContext(const Options& options, const Graph* graph, const Node* fused, const std::string& saved,
                 size_t number) {
  Attributes attributes;
  if (options.embeds) {
    if (saved.size() > INT_MAX) {
      NNVK_BAD_DATA("a saved part of %zu bytes is too large for a node: ep.context_embed_mode must be 0", saved.size());
    }
    attributes.add(kContent, saved);
  } else {
    const path model = modelPath(options, graph);
    if (model.empty()) {
      NNVK_BAD_DATA("a saved part needs the path of its model: ep.context_file_path, or ep.context_embed_mode 1");
    }
    const path name = model.stem().string() + "_nnvk_" + std::to_string(number) + ".bin";
    writeFile(model.parent_path() / name, saved);
    attributes.add(kContent, name.string());
  }
  attributes.add("main_context", int64_t{1});
  attributes.add(kEmbedded, int64_t{options.embeds});
  attributes.add("ep_sdk_version", NNVK_VERSION);
  attributes.add("hardware_architecture", deviceOf(options.device).name);
  const std::string name = TEXT(Node_GetName, fused);
  attributes.add("partition_name", name);
  attributes.add("source", kSource);
  const auto names = namesOf(inputsOf(fused)), results = namesOf(outputsOf(fused));
  const auto inputs = pointersTo(names), outputs = pointersTo(results);
  Node* node = nullptr;
  check(CreateNode(GetModelEditorApi(api), kType, kDomain, name.c_str(), inputs.data(), inputs.size(), outputs.data(),
                   outputs.size(), attributes.all().data(), attributes.all().size(), &node));
  return node;
}

namespace {

const std::string& format() {
  static const std::string text = "nnvk saved part " + std::to_string(kSavedPartFormat) + ";";
  return text;
}

}  // namespace

std::string compatibility(const std::string& device) {
  const auto record = deviceOf(device);
  return format() + " nnvk " + NNVK_VERSION + "; " + record.name + ", " + record.version;
}

Compatibility compatibilityOf(const std::string& saved) {
  if (saved.rfind(format(), 0) != 0) {
    return kUnsupported;
  }
  const auto devices = allDevices();
  const auto is_same = [&](const DeviceRecord& device) { return saved == compatibility(device.name); };
  return std::any_of(devices.begin(), devices.end(), is_same) ? kOptimal : kPreferRecompilation;
}

}  // namespace nnvk::provider
