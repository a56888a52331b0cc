\set aid random(1, :accounts)
\set tid random(1, 10)
\set delta random(-5000, 5000)
\set units random(1, 9)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, 1, :aid, :delta, CURRENT_TIMESTAMP);
INSERT INTO orders (aid, units, amount, due, letter)
  VALUES (:aid, :units, :units * 9.99, current_date + :units, CASE WHEN :units = 1 THEN repeat(md5(random()::text), 90) END);
UPDATE orders SET status = 'paid' WHERE order_id = currval('orders_order_id_seq') - 20;
-- A changed key: the row moves, and its letter with it, which the change does not carry.
UPDATE orders SET order_id = -order_id WHERE order_id = currval('orders_order_id_seq') - 50 AND order_id % 10 = 0;
DELETE FROM orders WHERE order_id = currval('orders_order_id_seq') - 100 AND order_id % 3 = 0;
END;
