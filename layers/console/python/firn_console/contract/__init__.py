"""What `/v1/console/…` answers, field by field: the JSON of docs/console.md, section API.

Times are RFC 3339 in UTC; ages and lags seconds; sizes bytes. Snapshot ids are text, because a browser's numbers end at
2^53. A list of pages has `next`: give it as `cursor` for the next page; None on the last. What is not known is null.
"""
