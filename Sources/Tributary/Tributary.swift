@_exported public import Coordinator
@_exported public import Merge
@_exported public import Node
@_exported public import Replication
