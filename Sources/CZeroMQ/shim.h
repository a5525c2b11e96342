// libzmq's own header, and what the system tells of a connection that libzmq made; the wrapper is
// Sources/Node/ZeroMQ.
#ifndef TRIBUTARY_CZEROMQ_SHIM_H
#define TRIBUTARY_CZEROMQ_SHIM_H

#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <zmq.h>

/// What the system tells of a TCP connection: whether its other end has closed it, and how many bytes
/// this process has read from it so far; nothing (-1) where it does not tell.
///
/// The system's count (`tcpi_bytes_received`, Linux 4.1) is beyond what glibc names of its structure.
static inline int tributary_connection(int connection, int64_t *bytes_read) {
    enum { offset = 128 };
    unsigned char info[512];
    socklen_t length = sizeof info;
    uint64_t received;
    int unread = 0;
    if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, info, &length) != 0
        || length < offset + sizeof received || ioctl(connection, FIONREAD, &unread) != 0) {
        return -1;
    }
    memcpy(&received, info + offset, sizeof received);
    *bytes_read = (int64_t)received - unread;
    return info[0] == TCP_CLOSE || info[0] == TCP_CLOSE_WAIT;
}

/// Ends a TCP connection at once, and drops what the system has of it and nobody has read: a connection
/// that is only shut down is read to the end of that. Gives 0, or -1 where the system does not do so.
static inline int tributary_cut(int connection) {
    struct sockaddr nobody;
    memset(&nobody, 0, sizeof nobody);
    nobody.sa_family = AF_UNSPEC;
    return connect(connection, &nobody, sizeof nobody);
}

/// Gives the system back what the allocator keeps though nobody uses it.
static inline void tributary_give_back_memory(void) { malloc_trim(0); }

#endif
