"""This room is where the unified graph's own operations are: nodes and edges, whole, for programs of this machine."""

from kgd.tools.graph.edges import CREATE_EDGES, DELETE_EDGES, EDGES
from kgd.tools.graph.making import CREATE_NODES, DELETE_NODES, UPDATE_NODE
from kgd.tools.graph.nodes import NODES
from kgd.tools.graph.retrieving import RETRIEVE

GRAPH_TOOLS = (NODES, CREATE_NODES, UPDATE_NODE, DELETE_NODES, EDGES, CREATE_EDGES, DELETE_EDGES, RETRIEVE)

__all__ = ["GRAPH_TOOLS"]
