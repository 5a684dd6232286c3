-- One step without any service: read the session, claim the message, store the answer of Twilio, move the session, store the alarm.
select nextval('turns') as turn \gset
select step from sessions where id = 1 + :turn % 100000;
insert into messages values (gen_random_uuid(), :turn, 'step:' || :turn, 'Hello, this is a step.', 'claimed', null, now());
update messages set status = 'accepted', sid = md5(:turn::text), updated_at = now() where key = 'step:' || :turn and status = 'claimed';
\startpipeline
begin;
update sessions set step = step + 1, updated_at = now() where id = 1 + :turn % 100000;
insert into alarms values (:turn, 1, now() + interval '4 seconds', null);
commit;
\endpipeline
update alarms set published_at = now() where session = :turn and step = 1;
