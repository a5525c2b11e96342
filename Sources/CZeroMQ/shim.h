// libzmq's own header is all this module exports; the wrapper is Sources/Node/ZeroMQ.
#include <zmq.h>
