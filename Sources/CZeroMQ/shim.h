// libzmq's own header, and what the system tells of a connection that libzmq made; the wrapper is
// Sources/Node/ZeroMQ.
#ifndef TRIBUTARY_CZEROMQ_SHIM_H
#define TRIBUTARY_CZEROMQ_SHIM_H

#include <stdint.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <zmq.h>

/// How many bytes a process has read from a TCP connection so far; -1 where the system does not tell.
///
/// The system's count (`tcpi_bytes_received`, Linux 4.1) is beyond what glibc names of its structure.
static inline int64_t tributary_bytes_read(int connection) {
    enum { offset = 128 };
    char info[512];
    socklen_t length = sizeof info;
    uint64_t received;
    int unread = 0;
    if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, info, &length) != 0
        || length < offset + sizeof received || ioctl(connection, FIONREAD, &unread) != 0) {
        return -1;
    }
    memcpy(&received, info + offset, sizeof received);
    return (int64_t)received - unread;
}

#endif
