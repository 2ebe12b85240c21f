// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdma-directory: see helper/supervisor.h.
#include "mediator/directory/worker.h"
#include "mediator/helper/supervisor.h"
#include "mediator/jail/system_calls.h"

int main(int argc, char** argv) {
    return vrdma::helper::run(
        argc, argv,
        {"vrdma-directory", &vrdma::jail::allow_calls_of_network_client, &vrdma::directory::work});
}
