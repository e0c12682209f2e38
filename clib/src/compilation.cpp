// The functions of compilations that tools/c_api.py does not generate.
#include <unistd.h>

#include <climits>

#include "request.hpp"

namespace nnvk::by_hand {

void ANeuralNetworksCompilation_setCaching(ANeuralNetworksCompilation* compilation, const char* cacheDir,
                                           const uint8_t* token) {
  std::string folder = cacheDir;
  if (folder.empty() || folder.front() != '/') {  // the server's working directory is what this one's once was
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) == nullptr) {
      NNVK_BAD_DATA("%s is relative to a folder that is not there", cacheDir);
    }
    folder = std::string(here) + '/' + folder;
  }
  Request request(kRequestCompilationsetCaching, compilation->server);
  request.put(*compilation);
  request.put(folder.c_str());
  request.packet().bytes(token, ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN);
  request.ask();
}

}  // namespace nnvk::by_hand
