// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdma-management: see helper/supervisor.h.
#include "mediator/helper/supervisor.h"
#include "mediator/jail/system_calls.h"
#include "mediator/management/worker.h"

int main(int argc, char** argv) {
    return vrdma::helper::run(
        argc, argv,
        {"vrdma-management", &vrdma::jail::allow_calls_of_local_server, &vrdma::management::work});
}
