/* Holds a pod's namespaces open, and collects the processes that others leave behind, until it is told to end. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void collect(int signal) {
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

static void end(int signal) {
    (void)signal;
    _exit(0);
}

int main(void) {
    struct sigaction on_child = {.sa_handler = collect, .sa_flags = SA_NOCLDSTOP};
    struct sigaction on_end = {.sa_handler = end};
    sigaction(SIGCHLD, &on_child, NULL);
    sigaction(SIGTERM, &on_end, NULL);
    sigaction(SIGINT, &on_end, NULL);
    for (;;) {
        pause();
    }
}
