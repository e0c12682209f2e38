// The Python module nnvk._native. Its interface is documented in nnvk/_native.pyi.
#include <cstdlib>
#include <cstring>
#include <exception>

#include <dlfcn.h>
#include <unistd.h>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "algorithm.hpp"
#include "buffer.hpp"
#include "device.hpp"
#include "error.hpp"
#include "fence.hpp"
#include "instance.hpp"
#include "loader.hpp"
#include "pipeline.hpp"
#include "probe.hpp"
#include "process.hpp"
#include "program.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace nnvk;

namespace {

// A cross-compiled module is made with the pyconfig.h of the Python that builds it.
static_assert(SIZEOF_VOID_P == sizeof(void*) && SIZEOF_SIZE_T == sizeof(size_t) && SIZEOF_LONG == sizeof(long) &&
                  SIZEOF_LONG_LONG == sizeof(long long) && SIZEOF_WCHAR_T == sizeof(wchar_t),
              "pyconfig.h is of another architecture");

std::terminate_handler terminate_otherwise = nullptr;

// Two questions to the interpreter for which the stable ABI of Python 3.12 has no function. Every Python exports one.
int (*is_finalizing)() = nullptr;
int (*holds_interpreter_lock)() = nullptr;

void find_functions_of_the_interpreter() {
    using Function = int (*)();
    const auto find = [](const char* name) { return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name)); };
    is_finalizing = find("Py_IsFinalizing");
    if (!is_finalizing) {
        is_finalizing = find("_Py_IsFinalizing"); // its name until 3.12
    }
    holds_interpreter_lock = find("PyGILState_Check");
    if (!is_finalizing || !holds_interpreter_lock) {
        throw nb::import_error("this Python does not export Py_IsFinalizing or PyGILState_Check");
    }
}

// Until 3.14, Python ends a daemon thread that comes back from a wait while the interpreter goes: by pthread_exit, whose
// unwinding of frames that must not throw, as the bindings have, ends the process. Such a thread is parked instead.
[[noreturn]] void park_thread_of_a_finished_interpreter() {
    const bool finished = is_finalizing() || !Py_IsInitialized();
    while (finished && !std::current_exception()) {
        pause();
    }
    terminate_otherwise();
    std::abort(); // the handler must not return
}

using Unlocked = nb::call_guard<nb::gil_scoped_release>;
using PortTuple = std::tuple<std::shared_ptr<Buffer>, uint64_t, uint64_t>;

// The C-contiguous bytes of a sequence of buffer-protocol objects (or None), held for the time of a call.
class HostViews {
  public:
    HostViews(nb::handle sequence, const char* what, bool writable) {
        const nb::object given = nb::steal(PySequence_Fast(sequence.ptr(), "expected a sequence of buffers"));
        // A tuple: a list may change while an item's __buffer__ runs.
        const nb::object items = nb::steal(given ? PySequence_Tuple(given.ptr()) : nullptr);
        if (!items) {
            throw nb::python_error();
        }
        const Py_ssize_t count = PyTuple_Size(items.ptr());
        bytes.reserve(count);
        views_.reserve(count); // a Py_buffer may point into itself, so the vector must not move
        for (Py_ssize_t i = 0; i < count; ++i) {
            const nb::handle item = PyTuple_GetItem(items.ptr(), i);
            if (item.is_none()) {
                bytes.push_back({nullptr, 0});
                continue;
            }
            Py_buffer view;
            if (PyObject_GetBuffer(item.ptr(), &view, PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) != 0) {
                refuse(item, what, i, writable);
            }
            views_.push_back(view);
            // A view of no bytes may have a null pointer, which would read as None.
            static char empty;
            bytes.push_back({view.len ? view.buf : &empty, static_cast<uint64_t>(view.len)});
        }
    }
    ~HostViews() {
        for (Py_buffer& view : views_) {
            PyBuffer_Release(&view);
        }
    }
    HostViews(const HostViews&) = delete;
    HostViews& operator=(const HostViews&) = delete;

    std::vector<Program::HostBytes> bytes;

  private:
    [[noreturn]] void refuse(nb::handle item, const char* what, Py_ssize_t index, bool writable) {
        const bool is_buffer = PyObject_CheckBuffer(item.ptr());
        nb::python_error cause; // takes the pending error
        for (Py_buffer& view : views_) {
            PyBuffer_Release(&view); // no destructor runs where a constructor throws
        }
        views_.clear();
        const std::string where = std::string(what) + " " + std::to_string(index);
        if (!is_buffer) {
            const std::string type = nb::type_name(item.type()).c_str();
            throw nb::type_error((where + ": expected a buffer-protocol object or None, got " + type).c_str());
        }
        throw nb::value_error((where + ": expected a C-contiguous" + (writable ? " writable" : "") + " buffer").c_str());
    }

    std::vector<Py_buffer> views_;
};

std::vector<uint32_t> words_of(const nb::bytes& spirv) {
    if (spirv.size() % 4) {
        throw std::invalid_argument("SPIR-V of " + std::to_string(spirv.size()) + " bytes: expected a multiple of 4");
    }
    std::vector<uint32_t> words(spirv.size() / 4);
    std::memcpy(words.data(), spirv.data(), spirv.size());
    return words;
}

std::vector<uint8_t> bytes_of(const nb::bytes& bytes) {
    const auto* data = static_cast<const uint8_t*>(bytes.data());
    return {data, data + bytes.size()};
}

std::vector<Program::Port> ports_of(const std::vector<PortTuple>& tuples) {
    std::vector<Program::Port> ports;
    for (const auto& [buffer, offset, size] : tuples) {
        ports.push_back({buffer, offset, size});
    }
    return ports;
}

// A program that goes while its work is in flight waits for it, which must not stop the interpreter.
std::shared_ptr<Program> make_program(std::shared_ptr<Device> device) {
    return std::shared_ptr<Program>(new Program(std::move(device)), [](Program* program) {
        if (program->is_foreign()) {
            return; // as in make_bound
        }
        std::optional<nb::gil_scoped_release> unlocked;
        if (nb::is_alive() && holds_interpreter_lock()) {
            unlocked.emplace();
        }
        program->settle();
        DriverCall call;
        delete program;
    });
}

// Lets Python handle its signals, Ctrl-C above all, during a wait without the interpreter lock. They are handled by the
// main thread; the others go on waiting without disturbing anybody.
void handle_signals() {
    if (gettid() == getpid()) {
        nb::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) {
            throw nb::python_error();
        }
    }
}

nb::dict limits_of(const PhysicalDevice& device) {
    nb::dict limits;
    for (const auto& [name, value] : device.limits) {
        limits[name.c_str()] = std::visit([](auto v) { return nb::cast(v); }, value);
    }
    return limits;
}

std::vector<std::pair<uint64_t, bool>> heaps_of(const PhysicalDevice& device) {
    std::vector<std::pair<uint64_t, bool>> heaps;
    for (uint32_t i = 0; i < device.memory.memoryHeapCount; ++i) {
        const VkMemoryHeap& heap = device.memory.memoryHeaps[i];
        heaps.emplace_back(heap.size, heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT);
    }
    return heaps;
}

using MatrixTuple = std::tuple<uint32_t, uint32_t, uint32_t, std::string, std::string, std::string, std::string>;

std::vector<MatrixTuple> matrices_of(const PhysicalDevice& device) {
    std::vector<MatrixTuple> matrices;
    for (const CooperativeMatrix& each : device.cooperative_matrices) {
        matrices.emplace_back(each.m, each.n, each.k, each.a, each.b, each.c, each.result);
    }
    return matrices;
}

void bind_devices(nb::module_& m) {
    nb::class_<Instance>(m, "Instance")
        .def(nb::new_([](bool validation) { return make_bound<Instance>(validation); }), nb::kw_only(),
             "validation"_a = false)
        .def("physical_devices", &Instance::physical_devices, Unlocked())
        .def("take_validation_messages", &Instance::take_validation_messages, Unlocked());

    nb::class_<PhysicalDevice>(m, "PhysicalDevice")
        .def_ro("index", &PhysicalDevice::index)
        .def_prop_ro("name", [](const PhysicalDevice& self) { return std::string(self.properties.deviceName); })
        .def_ro("type", &PhysicalDevice::type)
        .def_prop_ro("vendor_id", [](const PhysicalDevice& self) { return self.properties.vendorID; })
        .def_prop_ro("device_id", [](const PhysicalDevice& self) { return self.properties.deviceID; })
        .def_prop_ro("api_version", [](const PhysicalDevice& self) { return version_string(self.properties.apiVersion); })
        .def_prop_ro("driver_version", [](const PhysicalDevice& self) { return self.properties.driverVersion; })
        .def_prop_ro("pipeline_cache_uuid",
                     [](const PhysicalDevice& self) {
                         return nb::bytes(self.properties.pipelineCacheUUID, VK_UUID_SIZE);
                     })
        .def_prop_ro("has_compute_queue", &PhysicalDevice::has_compute_queue)
        .def_ro("driver_name", &PhysicalDevice::driver_name)
        .def_ro("driver_info", &PhysicalDevice::driver_info)
        .def_prop_ro("uuid", [](const PhysicalDevice& self) { return nb::bytes(self.uuid.data(), self.uuid.size()); })
        .def_prop_ro("limits", &limits_of)
        .def_ro("features", &PhysicalDevice::features)
        .def_ro("extensions", &PhysicalDevice::extensions)
        .def_prop_ro("cooperative_matrices", &matrices_of)
        .def_prop_ro("heaps", &heaps_of)
        .def(
            "create_device",
            [](PhysicalDevice& self, const std::optional<std::vector<std::string>>& features, const nb::bytes& cache) {
                const std::vector<uint8_t> pipeline_cache = bytes_of(cache);
                nb::gil_scoped_release unlocked;
                auto device = self.create_device(features, pipeline_cache);
                check_after_fork(device);
                return device;
            },
            "features"_a = nb::none(), nb::kw_only(), "pipeline_cache"_a = nb::bytes("", 0))
        .def("__repr__", [](const PhysicalDevice& self) {
            return "<PhysicalDevice " + std::to_string(self.index) + ": " + self.properties.deviceName + ">";
        });

    nb::class_<Device>(m, "Device")
        .def_ro("physical", &Device::physical)
        .def_ro("features", &Device::features)
        .def_ro("exports_sync_fd", &Device::exports_sync_fd)
        .def_prop_ro("allocated_bytes", &Device::allocated_bytes)
        .def_prop_ro("lost", &Device::lost)
        .def(
            "create_buffer",
            [](std::shared_ptr<Device> self, uint64_t size, bool host_visible, bool device_local) {
                return make_bound<Buffer>(std::move(self), size, host_visible, device_local);
            },
            "size"_a, nb::kw_only(), "host_visible"_a, "device_local"_a = false, Unlocked())
        .def(
            "create_algorithm",
            [](std::shared_ptr<Device> self, const nb::bytes& spirv, std::vector<std::shared_ptr<Buffer>> buffers,
               const std::vector<uint32_t>& specialization, uint32_t push_constant_size, uint32_t subgroup_size,
               bool full_subgroups) {
                const std::vector<uint32_t> words = words_of(spirv);
                nb::gil_scoped_release unlocked;
                return make_bound<Algorithm>(std::move(self), std::move(buffers), words, specialization,
                                             push_constant_size, subgroup_size, full_subgroups);
            },
            "spirv"_a, "buffers"_a, "specialization"_a, "push_constant_size"_a, nb::kw_only(), "subgroup_size"_a = 0,
            "full_subgroups"_a = false)
        .def("create_program", &make_program)
        .def(
            "pipeline_cache_data",
            [](Device& self, const nb::bytes& others) {
                const std::vector<uint8_t> theirs = bytes_of(others);
                std::vector<uint8_t> data;
                {
                    nb::gil_scoped_release unlocked;
                    data = self.pipeline_cache_data(theirs);
                }
                return nb::bytes(data.data(), data.size());
            },
            "others"_a = nb::bytes("", 0))
        .def_prop_ro("pipelines_compiled", [](Device& self) { return self.pipelines().compiled(); })
        .def("wait_idle", &Device::wait_idle, Unlocked());
}

void bind_programs(nb::module_& m) {
    nb::class_<Buffer>(m, "Buffer")
        .def_ro("size", &Buffer::size)
        .def_ro("host_visible", &Buffer::host_visible)
        .def("view", [](nb::handle_t<Buffer> self) {
            auto& buffer = nb::cast<Buffer&>(self);
            buffer.require_own(); // a child may not even have the mapping
            if (!buffer.host_visible) {
                throw std::invalid_argument("the buffer is not host visible");
            }
            return nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(buffer.data(), {buffer.size}, self);
        });

    nb::class_<Algorithm>(m, "Algorithm")
        .def_ro("push_constant_size", &Algorithm::push_constant_size)
        .def_prop_ro("has_new_pipeline", &Algorithm::has_new_pipeline);

    nb::class_<Fence>(m, "Fence")
        .def(
            "wait", [](Fence& self, int64_t timeout_ns) { return self.wait(timeout_ns, handle_signals); },
            "timeout_ns"_a = -1, Unlocked())
        .def_prop_ro("signaled", &Fence::signaled)
        .def("export_sync_fd", &Fence::export_sync_fd, Unlocked());

    nb::class_<Program>(m, "Program")
        .def("copy", &Program::copy, "src"_a, "src_offset"_a, "dst"_a, "dst_offset"_a, "size"_a)
        .def("fill", &Program::fill, "dst"_a, "offset"_a, "size"_a, "value"_a)
        .def(
            "dispatch",
            [](Program& self, std::shared_ptr<Algorithm> algorithm, std::array<uint32_t, 3> groups,
               const nb::bytes& push_constants) {
                self.dispatch(std::move(algorithm), groups, bytes_of(push_constants));
            },
            "algorithm"_a, "groups"_a, "push_constants"_a)
        .def("warm_up", &Program::warm_up, "algorithm"_a)
        .def("barrier", &Program::barrier)
        .def("timestamp", &Program::timestamp)
        .def(
            "finish",
            [](Program& self, const std::vector<PortTuple>& inputs, const std::vector<PortTuple>& outputs) {
                self.finish(ports_of(inputs), ports_of(outputs));
            },
            "inputs"_a, "outputs"_a, Unlocked())
        .def(
            "run",
            [](Program& self, nb::handle inputs, nb::handle outputs, int64_t timeout_ns) {
                HostViews in(inputs, "input", false), out(outputs, "output", true);
                nb::gil_scoped_release unlocked;
                return self.run(in.bytes, out.bytes, timeout_ns, handle_signals);
            },
            "inputs"_a, "outputs"_a, "timeout_ns"_a = -1)
        .def(
            "submit",
            [](Program& self, nb::handle inputs) {
                HostViews in(inputs, "input", false);
                nb::gil_scoped_release unlocked;
                return self.submit(in.bytes);
            },
            "inputs"_a)
        .def(
            "wait", [](Program& self, int64_t timeout_ns) { return self.wait(timeout_ns, handle_signals); },
            "timeout_ns"_a = -1, Unlocked())
        .def(
            "fetch",
            [](Program& self, nb::handle outputs) {
                HostViews out(outputs, "output", true);
                nb::gil_scoped_release unlocked;
                self.fetch(out.bytes);
            },
            "outputs"_a)
        .def("timestamps_ns", &Program::timestamps_ns, Unlocked());
}

} // namespace

NB_MODULE(_native, m) {
    // A process that ends with a device still open is no leak worth a warning.
    nb::set_leak_warnings(false);
    find_functions_of_the_interpreter();
    terminate_otherwise = std::set_terminate(park_thread_of_a_finished_interpreter);
    const auto vulkan_error = nb::exception<VulkanError>(m, "VulkanError", PyExc_RuntimeError);
    nb::exception<LoaderError>(m, "LoaderError", vulkan_error);
    nb::exception<DeviceLost>(m, "DeviceLostError", vulkan_error);
    m.def("load_vulkan", [] {
        nb::gil_scoped_release unlocked;
        DriverCall call;
        load_vulkan();
    });
    m.def("longest_call_s", &longest_call_s);
    bind_devices(m);
    bind_programs(m);
}
