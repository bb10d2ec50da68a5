"""A TCP proxy before the ports of a cluster's nodes. It cuts nodes off, breaks their connections,
and counts the commits that pass. One thread: the caller's loop calls pass_on(), for all proxies at
once.

Nothing passes the connections of a node that is cut off, either way, and nothing is lost: what was
under way goes on after the cut. The proxy must know which node connects. It asks the caller for the
processes of its nodes, and finds the socket among theirs in /proc.
"""
import collections
import errno
import os
import selectors
import socket
import struct
import time

READ_BYTES = 256 * 1024
PENDING_BYTES_MAX = 1024 * 1024  # of one direction; then the sender waits
GREETING_BYTES = 64              # of ZMTP, before its frames
MORE, LONG, COMMAND = 1, 2, 4    # flags of a ZMTP frame
COMMIT, PARAMETERS = 10, 11      # of the union Body in proto/rubato.fbs


def pass_on(selector, timeout):
    """Moves what there is of all proxies with this selector, or waits for it so long."""
    for key, events in selector.select(timeout):
        if key.fileobj.fileno() >= 0:    # not closed by one before it
            key.data(events)


class Table:
    """A table of a FlatBuffer: its numbers by their place in the schema."""

    def __init__(self, data, at):
        self.data, self.at = data, at
        self.fields_at = at - struct.unpack_from("<i", data, at)[0]
        self.fields_bytes = struct.unpack_from("<H", data, self.fields_at)[0]

    def number(self, place, form):
        entry = 4 + 2 * place
        if entry >= self.fields_bytes:
            return 0
        offset = struct.unpack_from("<H", self.data, self.fields_at + entry)[0]
        return struct.unpack_from(form, self.data, self.at + offset)[0] if offset else 0

    def table(self, place):
        entry = struct.unpack_from("<H", self.data, self.fields_at + 4 + 2 * place)[0]
        at = self.at + entry
        return Table(self.data, at + struct.unpack_from("<I", self.data, at)[0])


class Frames:
    """Finds control frames of Rubato in the bytes of one direction: ZMTP without encryption."""

    def __init__(self, on_control):
        self.on_control = on_control
        self.rest = bytearray()
        self.greeting = GREETING_BYTES

    def feed(self, data):
        """Returns: the bytes of all frames that are whole now, as on_control has left them."""
        rest = self.rest
        rest += data
        at = min(self.greeting, len(rest))
        self.greeting -= at
        while len(rest) >= at + 2:
            flags = rest[at]
            if flags & LONG:
                head, body = 9, int.from_bytes(rest[at + 1:at + 9], "big")
            else:
                head, body = 2, rest[at + 1]
            if len(rest) < at + head + body:
                break
            begin = at + head
            if flags & MORE and not flags & COMMAND and rest[begin:begin + 4] == b"RBTO":
                self.on_control(rest, begin + 16)
            at = begin + body
        whole = rest[:at]
        del rest[:at]
        return whole


class History:
    """Which commits were sent to which server, and which of them it answered, in which process."""

    def __init__(self, servers):
        self.sent = {server: set() for server in servers}
        self.answered = {server: set() for server in servers}
        self.by_process = collections.Counter()   # commits that a server's process answered
        self.by = {}                # how many servers have answered a commit
        self.at = []                # when the last server answered a commit
        self.last_by = {}           # when that was last, by worker

    def on_sent(self, server, commit):
        self.sent[server].add(commit)

    def on_answered(self, worker, server, process, commit):
        answered = self.answered[server]
        if commit in answered:
            return
        answered.add(commit)
        self.by_process[server, process] += 1
        count = self.by[commit] = self.by.get(commit, 0) + 1
        if count == len(self.answered):
            self.at.append(time.monotonic())
            self.last_by[worker] = self.at[-1]

    def standstill(self, begin, end):
        """The longest time without a commit between the two instants, and when it began."""
        points = [begin] + [at for at in self.at if begin < at < end] + [end]
        return max(((b - a, a) for a, b in zip(points, points[1:])), default=(0, begin))


class Way:
    """One direction of a connection."""

    def __init__(self, source, sink, frames):
        self.source, self.sink, self.frames = source, sink, frames
        self.pending = bytearray()
        self.ended = False   # the source has no more

    def take(self, data):
        if self.frames:
            self.frames.feed(data)
        self.pending += data


class Connection:
    def __init__(self, near, client, server, target):
        self.near, self.far = near, None
        self.client, self.server = client, server   # names of nodes; client: None if not known
        self.target = target                        # port of the server itself
        self.process = None                         # of the server
        self.ways = []
        self.under_way = {}                         # sequence: incarnation, of commits
        self.interest = {}                          # socket: the events that it is asked for


class Proxy:
    def __init__(self, selector, history, processes):
        """processes(): the ids of the running processes by the name of their node."""
        self.selector, self.history, self.processes = selector, history, processes
        self.connections = set()
        self.cuts = collections.Counter()

    def listen(self, node, port, target):
        """At `port` stands the proxy for this node, which itself listens at port `target`."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ,
                               lambda _: self.accept(listener, node, target))

    # --- faults ---------------------------------------------------------------------------------

    def cut(self, node):
        self.cuts[node] += 1
        self.look_again(node)

    def heal(self, node):
        self.cuts[node] -= 1
        self.look_again(node)

    def reset(self, node):
        """Both ends of each connection get a reset."""
        for connection in list(self.connections):
            if node in (connection.client, connection.server):
                self.close(connection, reset=True)

    def is_cut(self, connection):
        return self.cuts[connection.client] > 0 or self.cuts[connection.server] > 0

    def look_again(self, node):
        for connection in list(self.connections):
            if node in (connection.client, connection.server):
                self.follow(connection)

    # --- connections ----------------------------------------------------------------------------

    def accept(self, listener, node, target):
        try:
            near, address = listener.accept()
        except OSError:
            return
        near.setblocking(False)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        owner = self.owner_of(address[1], listener.getsockname()[1])
        connection = Connection(near, owner, node, target)
        self.connections.add(connection)
        self.follow(connection)

    def owner_of(self, port, door):
        """The node that has the socket from this port to the proxy's."""
        wanted = [f"0100007F:{each:04X}" for each in (port, door)]
        with open("/proc/net/tcp", encoding="ascii") as table:
            inode = next((row[9] for row in map(str.split, table) if row[1:3] == wanted), "0")
        link = f"socket:[{inode}]"
        for name, process in self.processes().items():
            try:
                for entry in os.scandir(f"/proc/{process}/fd"):
                    if os.readlink(entry.path) == link:
                        return name
            except OSError:   # it has ended, or closed the file
                continue
        return None

    def connect(self, connection):
        far = socket.socket()
        far.setblocking(False)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if far.connect_ex(("127.0.0.1", connection.target)) not in (0, errno.EINPROGRESS):
            far.close()
            return False
        connection.far = far
        connection.process = self.processes().get(connection.server)
        near, from_worker = connection.near, connection.client
        up = Frames(lambda data, at: self.on_commit(connection, data, at))
        down = Frames(lambda data, at: self.on_parameters(connection, data, at))
        watched = from_worker is not None and connection.server in self.history.sent
        connection.ways = [Way(near, far, up if watched else None),
                           Way(far, near, down if watched else None)]
        return True

    def follow(self, connection):
        """Asks the selector for what the connection can do now."""
        if connection not in self.connections:
            return
        cut = self.is_cut(connection)
        if not connection.far and not cut and not self.connect(connection):
            self.close(connection)
            return
        wanted = collections.Counter()
        for way in connection.ways if not cut else []:
            if not way.ended and len(way.pending) < PENDING_BYTES_MAX:
                wanted[way.source] |= selectors.EVENT_READ
            if way.pending:
                wanted[way.sink] |= selectors.EVENT_WRITE
        for end in (connection.near, connection.far):
            if end is None or wanted[end] == connection.interest.get(end, 0):
                continue
            if not connection.interest.get(end):
                self.selector.register(end, wanted[end],
                                       lambda events, end=end: self.move(connection, end, events))
            elif wanted[end]:
                self.selector.modify(end, wanted[end], self.selector.get_key(end).data)
            else:
                self.selector.unregister(end)
            connection.interest[end] = wanted[end]

    def move(self, connection, end, events):
        try:
            for way in connection.ways:
                if way.source is end and events & selectors.EVENT_READ:
                    data = end.recv(READ_BYTES)
                    way.ended = not data
                    way.take(data)
                    self.push(way)
                elif way.sink is end and events & selectors.EVENT_WRITE:
                    self.push(way)
        except BlockingIOError:
            pass
        except OSError:
            return self.close(connection)
        if any(way.ended and not way.pending for way in connection.ways):
            return self.close(connection)
        self.follow(connection)

    @staticmethod
    def push(way):
        if not way.pending:
            return
        try:
            del way.pending[:way.sink.send(way.pending)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            if error.errno != errno.ENOTCONN:   # still connecting
                raise

    def close(self, connection, reset=False):
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        for end in (connection.near, connection.far):
            if end is None:
                continue
            if connection.interest.get(end):
                self.selector.unregister(end)
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()

    # --- what passes ----------------------------------------------------------------------------

    def on_commit(self, connection, data, at):
        envelope = Table(data, at + struct.unpack_from("<I", data, at)[0])
        if envelope.number(6, "<B") != COMMIT:
            return
        incarnation, sequence = envelope.number(3, "<Q"), envelope.table(7).number(0, "<Q")
        connection.under_way[sequence] = incarnation
        self.history.on_sent(connection.server, (incarnation, sequence))

    def on_parameters(self, connection, data, at):
        envelope = Table(data, at + struct.unpack_from("<I", data, at)[0])
        if envelope.number(6, "<B") != PARAMETERS:
            return
        parameters = envelope.table(7)
        sequence = parameters.number(0, "<Q")
        incarnation = connection.under_way.pop(sequence, None)   # None: an answer to a pull
        if incarnation is not None and not parameters.number(6, "<B"):   # not refused
            self.history.on_answered(connection.client, connection.server, connection.process,
                                     (incarnation, sequence))
