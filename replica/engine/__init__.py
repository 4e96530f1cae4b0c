"""From a symbolic action to numbers; this room knows no physics."""
