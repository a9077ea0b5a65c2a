"""The single seam to other machines, and the client and server side of request and answer.

===============  =============================================================="""
