//! (u) What encoding and decoding cost, beside other codecs, and their share of a call and of reading and writing a key.

use std::{hint::black_box, time::Instant};

use abide_storage::cbor;
use anyhow::{Result, ensure};
use clap::Args;
use serde_bytes::ByteBuf;

use crate::{
    context::Context,
    figures,
    ours::{
        node::Local,
        values::{Act, Record, Sample, Small, Values},
    },
    report::{Measurement, Unit, micros},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Calls, reads and writes in one request to the object.
    #[arg(long, default_value_t = 100)]
    batch: u32,
}

/// Values that are encoded or decoded between two looks at the clock.
const BATCH: u32 = 16;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if !context.wants_ours() {
        return Ok(());
    }
    let local = Local::start(&context.fresh_dir("ours")?)?;
    let bench = Bench {
        context,
        options,
        local: &local,
    };
    bench.value::<Small>()?;
    bench.value::<Record>()?;
    bench.value::<Vec<Small>>()?;
    bench.value::<ByteBuf>()?;
    bench.value::<String>()?;
    local.shutdown()
}

/// One way to encode and to decode a type.
struct Codec<T> {
    name: &'static str,
    encode: fn(&T) -> Result<Vec<u8>>,
    decode: fn(&[u8]) -> Result<T>,
}

fn ours<T: Sample>() -> Codec<T> {
    Codec {
        name: "ours",
        encode: |value| Ok(cbor::to_vec(value)?),
        decode: |bytes| Ok(cbor::from_slice(bytes)?),
    }
}

fn peers<T: Sample>() -> [Codec<T>; 2] {
    [
        Codec {
            name: "ciborium",
            encode: |value| {
                let mut bytes = Vec::new();
                ciborium::into_writer(value, &mut bytes)?;
                Ok(bytes)
            },
            decode: |bytes| Ok(ciborium::from_reader(bytes)?),
        },
        Codec {
            name: "cbor4ii",
            encode: |value| Ok(cbor4ii::serde::to_vec(Vec::new(), value)?),
            decode: |bytes| Ok(cbor4ii::serde::from_slice(bytes)?),
        },
    ]
}

struct Bench<'a> {
    context: &'a Context,
    options: &'a Options,
    local: &'a Local,
}

const ACTS: [&str; 4] = ["call", "call-between-objects", "get", "put"];

impl Bench<'_> {
    fn value<T: Sample>(&self) -> Result<()> {
        let mut codecs = vec![ours::<T>()];
        if self.context.wants_peer() {
            codecs.extend(peers());
        }
        let disk = self.context.probe()?;
        let mut rows_of_codecs = vec![Vec::new(); codecs.len()];
        let (mut times, mut shares) = (Vec::new(), Vec::new());
        // Everything takes turns, so that a share and a ratio are of one moment of the machine.
        for _ in 0..self.context.rounds() {
            for (codec, rows) in codecs.iter().zip(&mut rows_of_codecs) {
                rows.push(self.codec(codec)?);
            }
            let [encode, decode] = rows_of_codecs[0].last().copied().unwrap_or_default();
            // The arguments of a call and its result are encoded and decoded.
            let call = 2.0 * (encode + decode);
            let whole = [
                self.call::<T>()?,
                self.inside::<T>(Act::Call)?,
                self.inside::<T>(Act::Get)?,
                self.inside::<T>(Act::Put)?,
            ];
            let parts = [call, call, decode, encode];
            shares.push(std::array::from_fn(|act| 100.0 * parts[act] / whole[act]));
            times.push(whole);
        }

        let of_codecs = rows_of_codecs.iter().map(|rows| figures::medians(rows));
        let of_codecs: Vec<_> = codecs.iter().zip(of_codecs).collect();
        for (index, act) in ["encode", "decode"].into_iter().enumerate() {
            let figure = |(_, figures): &(_, Option<[f64; 2]>)| figures.map(|both| both[index]);
            let name = format!("cbor/{}/{act}", T::NAME);
            let line = Measurement::new(name, Unit::Microseconds, disk).ours(figure(&of_codecs[0]));
            if codecs.len() == 1 {
                self.context.print(&line);
            }
            for peer in &of_codecs[1..] {
                let beside = line.clone().peer(peer.0.name, figure(peer));
                self.context.print(&beside);
            }
        }
        let (times, shares) = (figures::medians(&times), figures::medians(&shares));
        for (index, act) in ACTS.into_iter().enumerate() {
            let name = format!("cbor/{}/{act}", T::NAME);
            let share = Measurement::new(format!("{name}/share"), Unit::Percent, disk);
            let time = Measurement::new(name, Unit::Microseconds, disk);
            self.context
                .print(&time.ours(times.map(|all: [f64; 4]| all[index])));
            self.context
                .print(&share.ours(shares.map(|all: [f64; 4]| all[index])));
        }
        Ok(())
    }

    /// Microseconds to encode a value, and to decode it.
    fn codec<T: Sample>(&self, codec: &Codec<T>) -> Result<[f64; 2]> {
        let value = T::sample();
        let bytes = (codec.encode)(&value)?;
        ensure!(
            (codec.decode)(&bytes)? == value,
            "{} lost the value of {}",
            codec.name,
            T::NAME
        );
        let encode = self.mean(|| (codec.encode)(black_box(&value)))?;
        let decode = self.mean(|| (codec.decode)(black_box(&bytes)))?;
        Ok([encode, decode])
    }

    /// The mean microseconds of what is repeated for a slice.
    fn mean<R>(&self, act: impl Fn() -> Result<R>) -> Result<f64> {
        let (begun, mut times) = (Instant::now(), 0_u32);
        loop {
            for _ in 0..BATCH {
                black_box(act()?);
            }
            times += BATCH;
            let passed = begun.elapsed();
            if passed >= self.context.slice() {
                return Ok(micros(passed) / f64::from(times));
            }
        }
    }

    /// The mean microseconds of a call from outside.
    fn call<T: Sample>(&self) -> Result<f64> {
        let stub = self
            .local
            .host
            .env()
            .object::<Values>()
            .get_by_name("values");
        let value = T::sample();
        let begun = Instant::now();
        self.local.runtime.block_on(async {
            let mut calls = 0_u32;
            while begun.elapsed() < self.context.slice() {
                let result: T = stub.untyped().call(T::NAME, &(&value,)).await?;
                black_box(result);
                calls += 1;
            }
            Ok(micros(begun.elapsed()) / f64::from(calls))
        })
    }

    /// The mean microseconds of an act inside an object.
    fn inside<T: Sample>(&self, act: Act) -> Result<f64> {
        let stub = self
            .local
            .host
            .env()
            .object::<Values>()
            .get_by_name("values");
        let (begun, mut means, mut batches) = (Instant::now(), 0.0, 0_u32);
        while begun.elapsed() < self.context.slice() {
            let call = stub.measure(T::NAME.to_owned(), act, self.options.batch);
            means += self.local.runtime.block_on(call)?;
            batches += 1;
        }
        Ok(means / f64::from(batches.max(1)))
    }
}
