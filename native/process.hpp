// Processes that fork.
//
// A forked child has the memory of its parent, but none of its threads: neither the driver's, without which nothing that
// was made before the fork works or can even be destroyed, nor those that held a lock at that moment. So everything
// here belongs to the process that made it; elsewhere it is an error to use it, and it is left alone when it goes. And
// no fork happens while a thread is inside the driver, whose locks the child needs for devices of its own.
#pragma once

#include <memory>
#include <utility>

namespace nnvk {

// An object that only the process that made it may use.
class ProcessBound {
  public:
    ProcessBound();
    ProcessBound(const ProcessBound&) = delete;
    ProcessBound& operator=(const ProcessBound&) = delete;

    // Whether another process made it, of which this is a child.
    bool is_foreign() const;
    // Throws DeviceLost where it is.
    void require_own() const;

  protected:
    ~ProcessBound() = default;

  private:
    const unsigned generation_;
};

// While it lives, this thread may be in the driver, and no fork begins; one that has begun ends first. It comes before
// any lock, and is not held during a wait that has no limit.
class DriverCall {
  public:
    DriverCall();
    // For a call on an object. Throws DeviceLost where that belongs to another process.
    explicit DriverCall(const ProcessBound& object);
    ~DriverCall();
    DriverCall(const DriverCall&) = delete;
    DriverCall& operator=(const DriverCall&) = delete;
};

// For how many seconds a thread of this process has been in the driver, of several the one that came first; 0: none is.
double longest_call_s();

// How many forks lie between the first process and this one.
unsigned process_number();

// Whether the parent had started Vulkan before it forked this process.
bool vulkan_is_inherited();

// From now on a child must not run the exit handlers of the driver, which wait for threads that the child doesn't have.
void vulkan_has_started();

// As std::make_shared; in a child, what the parent made is not destroyed.
template <typename Object, typename... Arguments> std::shared_ptr<Object> make_bound(Arguments&&... arguments) {
    return std::shared_ptr<Object>(new Object(std::forward<Arguments>(arguments)...), [](Object* object) {
        if (!object->is_foreign()) {
            DriverCall call;
            delete object;
        }
    });
}

} // namespace nnvk
