"""A TCP relay for one directed link of the mesh, which a test can cut and heal."""

import selectors
import socket
import threading


class Relay:
    """Listens on a port and passes bytes on to another one, until it is cut."""

    def __init__(self, port, target):
        self.port = port
        self.target = target
        self.lock = threading.Lock()
        self.sockets = set()
        self.listener = None
        self.heal()

    def heal(self):
        with self.lock:
            if self.listener is not None:
                return
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.port))
            listener.listen(16)
            self.listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self):
        """Ends all connections and refuses new ones."""
        with self.lock:
            listener, self.listener = self.listener, None
            ended, self.sockets = self.sockets, set()
        for one in [listener, *ended]:
            if one is None:
                continue
            # Without it, a thread that waits in accept or recv keeps the socket open.
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def _accept(self, listener):
        while True:
            try:
                taken, _ = listener.accept()
            except OSError:
                return
            try:
                onward = socket.create_connection(("127.0.0.1", self.target), timeout=2)
                onward.settimeout(None)
            except OSError:
                taken.close()
                continue
            with self.lock:
                if self.listener is not listener:
                    taken.close()
                    onward.close()
                    return
                self.sockets |= {taken, onward}
            threading.Thread(target=self._pass, args=(taken, onward), daemon=True).start()

    def _pass(self, one, other):
        with selectors.DefaultSelector() as selector:
            try:
                selector.register(one, selectors.EVENT_READ, other)
                selector.register(other, selectors.EVENT_READ, one)
                while True:
                    for key, _ in selector.select():
                        data = key.fileobj.recv(65536)
                        if not data:
                            raise OSError("ended")
                        key.data.sendall(data)
            except (OSError, ValueError):
                pass
        for ended in (one, other):
            with self.lock:
                self.sockets.discard(ended)
            ended.close()
