#include "process.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include <pthread.h>
#include <unistd.h>

#include "error.hpp"

namespace nnvk {

namespace {

std::atomic<unsigned> generation{0}; // forks between the first process and this one
std::atomic<bool> started{false}, inherited{false};
thread_local unsigned depth = 0; // of DriverCalls in this thread

// A thread that is in the driver, and since when.
struct Stay {
    std::chrono::steady_clock::time_point since;
    Stay* next = nullptr;
};
thread_local Stay stay;

// Threads in the driver on one side, a fork on the other.
struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    unsigned inside = 0;
    Stay* stays = nullptr;
    bool forking = false;

    void add(Stay& one) {
        one.since = std::chrono::steady_clock::now();
        one.next = std::exchange(stays, &one);
        ++inside;
    }

    void remove(const Stay& one) {
        Stay** at = &stays;
        while (*at != &one) {
            at = &(*at)->next;
        }
        *at = one.next;
        --inside;
    }
};

// Never destroyed: threads may outlive the module. The child makes it anew in its place, whatever the state it was in.
alignas(Gate) unsigned char gate_memory[sizeof(Gate)];
Gate& gate = *new (gate_memory) Gate;

void enter() {
    if (depth++ == 0) {
        std::unique_lock lock(gate.mutex);
        gate.changed.wait(lock, [] { return !gate.forking; });
        gate.add(stay);
    }
}

void leave() {
    if (--depth == 0) {
        std::lock_guard lock(gate.mutex);
        gate.remove(stay);
        if (gate.forking) {
            gate.changed.notify_all();
        }
    }
}

void before_fork() {
    std::unique_lock lock(gate.mutex);
    gate.changed.wait(lock, [] { return !gate.forking; }); // two threads may fork
    gate.forking = true;
    gate.changed.wait(lock, [] { return gate.inside == (depth ? 1 : 0); });
}

void after_fork_in_parent() {
    std::lock_guard lock(gate.mutex);
    gate.forking = false;
    gate.changed.notify_all();
}

// Handlers run in the opposite order of their registration, so this one comes before those of the parent's driver.
void leave_without_exit_handlers(int status, void*) {
    std::fflush(nullptr);
    _exit(status);
}

void after_fork_in_child() {
    new (gate_memory) Gate;
    if (depth) {
        gate.add(stay);
    }
    ++generation;
    if (started.exchange(false)) {
        inherited = true;
        on_exit(leave_without_exit_handlers, nullptr);
    }
}

[[maybe_unused]] const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

} // namespace

ProcessBound::ProcessBound() : generation_(generation) {}

bool ProcessBound::is_foreign() const { return generation_ != generation; }

void ProcessBound::require_own() const {
    if (is_foreign()) {
        throw DeviceLost("it was made before a fork, in another process");
    }
}

DriverCall::DriverCall() { enter(); }

DriverCall::DriverCall(const ProcessBound& object) {
    object.require_own(); // first: nothing is to be left where it throws
    enter();
}

DriverCall::~DriverCall() { leave(); }

double longest_call_s() {
    std::lock_guard lock(gate.mutex);
    std::chrono::duration<double> longest{0};
    for (const Stay* one = gate.stays; one; one = one->next) {
        longest = std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - one->since);
    }
    return longest.count();
}

unsigned process_number() { return generation; }

bool vulkan_is_inherited() { return inherited; }

void vulkan_has_started() { started = true; }

} // namespace nnvk
