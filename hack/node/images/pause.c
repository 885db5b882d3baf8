// SPDX-FileCopyrightText: The ascendop authors
// SPDX-License-Identifier: Apache-2.0

// What holds the namespaces of a pod: it waits, and buries the dead.

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) {
    (void)number;
    _exit(0);
}

static void bury(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void) {
    struct sigaction ends = {.sa_handler = end};
    struct sigaction buries = {.sa_handler = bury, .sa_flags = SA_NOCLDSTOP};
    sigaction(SIGINT, &ends, NULL);
    sigaction(SIGTERM, &ends, NULL);
    sigaction(SIGCHLD, &buries, NULL);
    for (;;) {
        pause();
    }
}
