// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdma-handshake: see helper/supervisor.h.
#include "mediator/helper/supervisor.h"
#include "mediator/jail/system_calls.h"
#include "mediator/wire/fabric/handshake_worker.h"

int main(int argc, char** argv) {
    return vrdma::helper::run(argc, argv,
                              {"vrdma-handshake", &vrdma::jail::allow_calls_of_file_reader,
                               &vrdma::wire::fabric::make_handshakes});
}
