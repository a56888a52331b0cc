-- One transaction of pgbench: updates, deletes and inserts all over the table.
\set id random(1, :rows)
\set gone random(1, :rows)
\set customer random(1, 1000)
\set cents random(-9999999, 9999999)
BEGIN;
UPDATE orders SET status = 'paid', amount = :cents / 100.0, updated = localtimestamp WHERE id = :id;
DELETE FROM orders WHERE id = :gone;
INSERT INTO orders SELECT nextval('orders_id'), :customer, 'new', :cents / 100.0, now(), localtimestamp, 'written meanwhile';
COMMIT;
